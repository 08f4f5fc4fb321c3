// The log: rank 0 alone writes to the terminal and to the run's log.txt; every other rank is silent except through
// warn_all and errors. Whole-line writes; warnings and errors go to stderr. Thread-safe.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace muster::log {

/// is_printing: whether this process may print (rank 0). Callable before MPI starts (then with true).
void set_printing(bool is_printing);
/// false: informative lines go to the file alone, as in trials of a sweep; warnings and errors still go to the
/// terminal.
void set_terminal(bool has_terminal);
/// Also append every line to this file from now on.
void open_file(const std::filesystem::path& path);
void close_file();

void write_info(const std::string& line);
void write_warning(const std::string& line);
/// Printed by every rank, whatever set_printing said; for errors that leave main.
void write_error(const std::string& line);
/// The live progress line of a terminal: replaces itself; on a non-terminal nothing is printed. "" clears it.
void write_progress(const std::string& line);
/// Whether stdout is a terminal (so that the live line is shown); MUSTER_PROGRESS=1|0 overrides.
bool is_terminal();

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write_info(fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  write_warning(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster::log
