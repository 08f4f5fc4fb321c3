// Commands that run on the ranks of a job: starting the session, and ending it right whatever happens.
#include "cli/session_command.hpp"

#include <cstdlib>

#include <muster/base/error.hpp>
#include <muster/base/log.hpp>
#include <muster/train/crash_file.hpp>
#include <muster/train/together.hpp>

namespace muster::cli {

int with_session(const std::function<ExitCode(comm::Session&)>& body, const std::function<std::string()>& crash_folder) {
  const auto session = comm::start_session({});
  log::set_printing(session->world().rank() == 0);
  ExitCode code = ExitCode::done;
  std::string message;
  try {
    code = body(*session);
    session->close();
    return static_cast<int>(code);
  } catch (const train::AgreedError& error) {  // every rank knows: an orderly end
    if (*error.what() != '\0') log::write_error(fmt::format("muster: error: {}", error.what()));
    code = error.code();
    session->close();
    return static_cast<int>(code);
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  } catch (const std::bad_alloc&) {
    code = ExitCode::device;
    message = "out of host memory; use a smaller data.batch or more ranks";
  } catch (const std::exception& error) {
    code = ExitCode::internal;
    message = error.what();
  }
  // This rank alone failed (or every rank for itself): say so, leave a crash file, take the others down.
  log::write_error(fmt::format("muster: error: {}: {}", error_context(), message));
  if (const std::string folder = crash_folder(); !folder.empty()) 
    train::write_crash_file(folder, session->world().rank(), static_cast<int>(code), message);
  session->abort(static_cast<int>(code));
  std::_Exit(static_cast<int>(code));  // not reached; abort() does not return
}

}  // namespace muster::cli
