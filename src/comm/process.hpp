// What a process is to the kernel: its cores, and whether it still lives.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>

namespace muster::comm {

/// Identifies a process of this machine beyond the reuse of its number.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::int64_t start_ticks = 0;    ///< since boot, from /proc/PID/stat
  std::int64_t pid_namespace = 0;  ///< inode of /proc/PID/ns/pid: numbers of another namespace say nothing here
  std::int64_t boot_hash = 0;      ///< of the kernel's boot id: the same machine
};

ProcessIdentity identify_self();
/// False once the process has ended (also as a zombie) or its number belongs to another one. True where this process
/// cannot know (another machine or namespace).
bool is_alive(const ProcessIdentity& process);

std::string host_name();  ///< without the domain
cpu_set_t allowed_cores();
int online_cores();

}  // namespace muster::comm
