#include <muster/train/together.hpp>

#include <algorithm>
#include <exception>
#include <optional>

namespace muster::train {

void together(comm::Communicator& world, const std::string& what, const std::function<void()>& action) {
  int code = 0;
  std::string message;
  try {
    action();
  } catch (...) {
    const Failure failure = current_failure();
    code = static_cast<int>(failure.code);
    message = failure.message;
  }
  const auto reports = world.all_gather_text(code == 0 ? "" : fmt::format("{} {}", code, message), what);
  const auto failed = std::find_if(reports.begin(), reports.end(), [](const std::string& r) { return !r.empty(); });
  if (failed == reports.end()) return;
  const auto space = failed->find(' ');
  const auto agreed = static_cast<ExitCode>(std::stoi(failed->substr(0, space)));
  if (world.rank() != 0) throw AgreedError(agreed, "");
  const bool is_alike = std::all_of(reports.begin(), reports.end(), [&](const std::string& r) { return r == *failed; });
  const std::string text = failed->substr(space + 1);
  if (is_alike) throw AgreedError(agreed, text);
  throw AgreedError(
      agreed, fmt::format("rank {}: {}", world.world_rank(static_cast<int>(failed - reports.begin())).value, text));
}

}  // namespace muster::train
