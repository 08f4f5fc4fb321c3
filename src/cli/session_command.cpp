// Commands that run on the ranks of a job: starting the session, and ending it right whatever happens.
#include "cli/session_command.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <muster/base/error.hpp>
#include <muster/base/log.hpp>
#include <muster/base/status_file.hpp>
#include <muster/train/crash_file.hpp>
#include <muster/train/together.hpp>

namespace muster::cli {
namespace {

/// Without the dead no orderly end of MPI is possible: everything is written, so the process just ends.
void end_if_ranks_lost(const comm::Session& session, ExitCode code) {
  if (!session.are_ranks_lost()) return;
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

}  // namespace

int with_session(const std::function<ExitCode(comm::Session&)>& body,
                 const std::function<std::string()>& crash_folder) {
  const auto session = comm::start_session({});
  log::set_printing(session->world().rank() == 0);
  ExitCode code = ExitCode::done;
  std::string message;
  try {
    code = body(*session);
    if (session->world().rank() == 0) write_status_file(static_cast<int>(code));
    end_if_ranks_lost(*session, code);
    session->close();
    return static_cast<int>(code);
  } catch (const train::AgreedError& error) {  // every rank knows: an orderly end
    if (*error.what() != '\0') log::write_error(fmt::format("muster: error: {}", error.what()));
    code = error.code();
    write_status_file(static_cast<int>(code));
    end_if_ranks_lost(*session, code);
    session->close();
    return static_cast<int>(code);
  } catch (...) {
    const Failure failure = current_failure();
    code = failure.code;
    message = failure.message;
  }
  // This rank alone failed (or every rank for itself): say so, leave a crash file, take the others down.
  log::write_error(fmt::format("muster: error: {}: {}", error_context(), message));
  if (const std::string folder = crash_folder(); !folder.empty())
    train::write_crash_file(folder, session->world().rank(), static_cast<int>(code), message);
  write_status_file(static_cast<int>(code));
  session->abort(static_cast<int>(code));
  std::_Exit(static_cast<int>(code));  // not reached; abort() does not return
}

}  // namespace muster::cli
