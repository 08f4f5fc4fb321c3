// Two ways to die of another's death, both over TCP. The kernel ends a process that writes to a connection whose other
// end is gone, and Open MPI 4 writes by writev, without asking to be spared. And each survivor sends the launcher a
// help text about the lost peer, which mpirun unpacks wrongly under load and may crash of; the loss is told by our own
// heartbeats, so that one text is dropped and every other is printed here, past the launcher.
#include "comm/mpi/lost_peers.hpp"

#include "comm/mpi/check.hpp"

#include <dlfcn.h>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace muster::comm {
namespace {

using ShowHelp = int (*)(const char* file, const char* topic, bool wants_header, ...);
using RenderHelp = char* (*)(const char* file, const char* topic, bool wants_header, std::va_list values);

RenderHelp render_help = nullptr;

int show_help(const char* file, const char* topic, bool wants_header, ...) {
  if (file == nullptr || topic == nullptr || std::string_view(topic) == "peer hung up") return 0;
  std::va_list values;
  va_start(values, wants_header);
  char* text = render_help(file, topic, wants_header, values);
  va_end(values);
  if (text != nullptr) std::fputs(text, stderr);
  std::free(text);
  return 0;
}

bool is_open_mpi_4() {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MUSTER_MPI(MPI_Get_library_version(version, &length));
  return std::string_view(version).starts_with("Open MPI v4.");
}

}  // namespace

void outlive_lost_peers() {
  std::signal(SIGPIPE, SIG_IGN);
  if (!is_open_mpi_4()) return;  // elsewhere the name may be that of a function
  auto* const hook = static_cast<ShowHelp*>(dlsym(RTLD_DEFAULT, "opal_show_help"));
  render_help = reinterpret_cast<RenderHelp>(dlsym(RTLD_DEFAULT, "opal_show_help_vstring"));
  if (hook != nullptr && render_help != nullptr) *hook = show_help;
}

}  // namespace muster::comm
