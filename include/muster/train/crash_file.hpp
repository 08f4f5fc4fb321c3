// errors/rank-N.json of a run: what a rank says when it goes down alone.
#pragma once

#include <filesystem>
#include <string>

namespace muster::train {

/// Writes RUN/errors/rank-N.json; failures to do so are swallowed, since the process is ending already.
void write_crash_file(const std::filesystem::path& run_directory, int rank, int exit_code,
                      const std::string& message) noexcept;

}  // namespace muster::train
