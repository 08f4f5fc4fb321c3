// Lines go to spdlog sinks: stdout and stderr for the terminal, one file for the run. Patterns carry no time: a batch
// log should be comparable between runs; metrics.jsonl has the times.
#include <muster/base/error.hpp>
#include <muster/base/log.hpp>

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace muster::log {
namespace {

struct State {
  std::mutex mutex;
  bool is_printing = true;
  bool has_terminal = true;
  bool has_progress_line = false;
  std::shared_ptr<spdlog::logger> file;
};

State& state() {
  static State instance;
  return instance;
}

void clear_progress_line(State& s) {
  if (!s.has_progress_line) return;
  std::fputs("\r\033[K", stdout);
  std::fflush(stdout);
  s.has_progress_line = false;
}

void print(std::FILE* stream, const std::string& line) {
  const std::string whole = line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stream);
  std::fflush(stream);
}

void append_to_file(State& s, spdlog::level::level_enum level, const std::string& line) {
  if (s.file) s.file->log(level, line);
}

}  // namespace

void set_printing(bool is_printing) {
  const std::lock_guard lock(state().mutex);
  state().is_printing = is_printing;
}

void set_terminal(bool has_terminal) {
  const std::lock_guard lock(state().mutex);
  state().has_terminal = has_terminal;
}

void open_file(const std::filesystem::path& path) {
  const std::lock_guard lock(state().mutex);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_st>(path.string());
    state().file = std::make_shared<spdlog::logger>("run", sink);
  } catch (const spdlog::spdlog_ex& error) {
    fail(ExitCode::checkpoint, "cannot write the log {}: {}", path.string(), error.what());
  }
  state().file->set_pattern("%v");
  state().file->flush_on(spdlog::level::trace);
}

void close_file() {
  const std::lock_guard lock(state().mutex);
  state().file.reset();
}

void write_info(const std::string& line) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.is_printing) return;
  clear_progress_line(s);
  if (s.has_terminal) print(stdout, line);
  append_to_file(s, spdlog::level::info, line);
}

void write_warning(const std::string& line) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.is_printing) return;
  clear_progress_line(s);
  print(stderr, "muster: warning: " + line);
  append_to_file(s, spdlog::level::warn, "warning: " + line);
}

void write_error(const std::string& line) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  clear_progress_line(s);
  print(stderr, line);
  append_to_file(s, spdlog::level::err, line);
}

void write_progress(const std::string& line) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.is_printing || !s.has_terminal || !is_terminal()) return;
  clear_progress_line(s);
  if (line.empty()) return;
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
  s.has_progress_line = true;
}

bool is_terminal() {
  if (const char* choice = std::getenv("MUSTER_PROGRESS")) return choice[0] == '1';
  // mpirun gives its ranks a terminal of its own, whatever becomes of their output: there only the variable tells.
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) return false;
  return isatty(STDOUT_FILENO) == 1;
}

}  // namespace muster::log
