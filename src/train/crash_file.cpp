#include <muster/train/crash_file.hpp>

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>

#include <nlohmann/json.hpp>

namespace muster::train {

void write_crash_file(const std::filesystem::path& run, int rank, int exit_code, const std::string& message) noexcept {
  try {
    if (!std::filesystem::is_directory(run)) return;
    std::filesystem::create_directories(run / "errors");
    const nlohmann::ordered_json report{
        {"rank", rank}, {"exit_code", exit_code}, {"where", error_context()}, {"message", message}};
    write_file_atomic(run / "errors" / fmt::format("rank-{}.json", rank),
                      report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (...) {
  }
}

}  // namespace muster::train
