#include "parallel/server/board.hpp"

namespace muster::parallel {

Board::Board(const Roles& roles, const Shards& shards, int server, int optimizer_slots)
    : shard_bytes_(round_to_line(static_cast<std::size_t>(shards.ranges[static_cast<std::size_t>(server)].size()) *
                                 sizeof(float))),
      log_entries_(slots_per_worker * roles.workers + 2) {
  const auto workers = static_cast<std::size_t>(roles.workers);
  std::size_t at = 4 * line_bytes;
  const auto take = [&at](std::size_t bytes) {
    const std::size_t here = at;
    at += round_to_line(bytes);
    return here;
  };
  applied_ = take(workers * line_bytes);
  versions_ = take(static_cast<std::size_t>(version_buffers) * shard_bytes_);
  snapshot_ = take(static_cast<std::size_t>(1 + optimizer_slots) * shard_bytes_);
  slots_ = take(workers * slots_per_worker * shard_bytes_);
  if (server == 0) {
    coordinator_ = take(3 * line_bytes);
    orders_ = take(workers * sizeof(Order));
    reports_ = take(workers * sizeof(Report));
    log_ = take(static_cast<std::size_t>(log_entries_) * sizeof(LogEntry));
  }
  bytes_ = at;
}

}  // namespace muster::parallel
