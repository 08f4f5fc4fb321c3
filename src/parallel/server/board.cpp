#include "parallel/server/board.hpp"

namespace muster::parallel {

Board::Board(const Roles& roles, const Shards& shards, int server, const WindowSizes& sizes)
    : shard_bytes_(round_to_line(static_cast<std::size_t>(shards.ranges[static_cast<std::size_t>(server)].size()) *
                                 sizeof(float))),
      bases_bytes_(round_to_line(static_cast<std::size_t>(roles.servers) * word_bytes)),
      rows_bytes_(line_bytes + 2 * round_to_line(static_cast<std::size_t>(sizes.statistics) * sizeof(double))),
      entry_bytes_(round_to_line(sizeof(LogEntry) + static_cast<std::size_t>(roles.workers) * word_bytes)),
      parts_(sizes.parts),
      log_entries_(slots_per_worker * roles.workers + 2) {
  const auto workers = static_cast<std::size_t>(roles.workers);
  std::size_t at = 5 * line_bytes;
  const auto take = [&at](std::size_t bytes) {
    const std::size_t here = at;
    at += round_to_line(bytes);
    return here;
  };
  applied_ = take(workers * line_bytes);
  squares_ = take(static_cast<std::size_t>(optim::norm_pieces(shards.ranges[static_cast<std::size_t>(server)].size())) *
                  sizeof(double));
  versions_ = take(static_cast<std::size_t>(version_buffers) * shard_bytes_);
  snapshot_ = take(static_cast<std::size_t>(1 + sizes.optimizer_slots) * shard_bytes_);
  slots_ = take(workers * slots_per_worker * static_cast<std::size_t>(parts_) * shard_bytes_);
  pulled_ = take(sizes.keeps_pulled ? workers * slots_per_worker * shard_bytes_ : 0);
  if (server == 0) {
    coordinator_ = take(3 * line_bytes);
    orders_ = take(workers * sizeof(Order));
    reports_ = take(workers * sizeof(Report));
    bases_ = take(workers * slots_per_worker * bases_bytes_);
    members_ = take(workers * word_bytes);
    rows_ = take(workers * rows_bytes_);
    log_ = take(static_cast<std::size_t>(log_entries_) * entry_bytes_);
  }
  bytes_ = at;
}

}  // namespace muster::parallel
