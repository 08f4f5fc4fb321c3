#include <muster/parallel/server/lease_book.hpp>

#include <muster/base/check.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::parallel {

LeaseBook::LeaseBook(Range batches, const std::vector<std::int64_t>& done, int workers, const LeaseOptions& options)
    : batches_(batches),
      options_(options),
      workers_(static_cast<std::size_t>(workers)),
      next_(batches.begin),
      open_(batches.begin) {
  MUSTER_CHECK(options.longest_lease > 0 && options.batches_per_push > 0 && options.staleness >= 0,
               "lease of {} pushes of {} batches, staleness {}", options.longest_lease, options.batches_per_push,
               options.staleness);
  for (std::int64_t batch : done)
    if (batch >= batches.begin && batch < batches.end && beyond_.insert(batch).second) ++committed_;
}

void LeaseBook::join(int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  if (w.is_live) return;
  w.clock = std::max(w.clock, live() > 0 ? slowest_clock() : w.clock);
  w.is_live = true;
}

void LeaseBook::lose(int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  returned_.insert(w.held.begin(), w.held.end());
  w.held.clear();
  w.is_live = false;
  w.seconds_per_batch = 0;
}

int LeaseBook::live() const {
  return static_cast<int>(std::ranges::count_if(workers_, [](const Worker& w) { return w.is_live; }));
}

bool LeaseBook::holds(int worker, std::int64_t batch) const {
  const Worker& w = workers_[static_cast<std::size_t>(worker)];
  return w.is_live && std::ranges::find(w.held, batch) != w.held.end();
}

bool LeaseBook::holds(int worker, const Range& batches) const {
  for (std::int64_t batch = batches.begin; batch < batches.end; ++batch)
    if (!holds(worker, batch)) return false;
  return true;
}

std::int64_t LeaseBook::slowest_clock() const {
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  for (const Worker& w : workers_)
    if (w.is_live) slowest = std::min(slowest, w.clock);
  return slowest;
}

/// In proportion to the worker's speed, the slowest's being 1.
std::int64_t LeaseBook::lease_length(const Worker& worker) const {
  double slowest = 0;
  for (const Worker& w : workers_)
    if (w.is_live) slowest = std::max(slowest, w.seconds_per_batch);
  if (slowest <= 0 || worker.seconds_per_batch <= 0) return 1;
  return std::clamp<std::int64_t>(std::llround(slowest / worker.seconds_per_batch), 1, options_.longest_lease);
}

/// The first `length` batches of the row that nobody has, as far as they lie together.
Range LeaseBook::take(std::int64_t length) {
  Range lease;
  if (!returned_.empty()) {
    lease.begin = lease.end = *returned_.begin();
    while (lease.size() < length && !returned_.empty() && *returned_.begin() == lease.end) {
      returned_.erase(returned_.begin());
      ++lease.end;
    }
  } else {
    next_ = std::max(next_, open_);
    while (next_ < batches_.end && beyond_.contains(next_)) ++next_;
    lease.begin = lease.end = next_;
    while (lease.size() < length && next_ < batches_.end && !beyond_.contains(next_)) lease.end = ++next_;
  }
  return lease;
}

std::optional<Range> LeaseBook::grant(int worker) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  MUSTER_CHECK(w.is_live && w.held.empty(), "worker {} live {}, holds {} batches", worker, w.is_live, w.held.size());
  if (!options_.is_unbounded && w.clock - slowest_clock() > options_.staleness) return std::nullopt;
  const Range lease = take(lease_length(w) * options_.batches_per_push);
  if (lease.empty()) return std::nullopt;
  for (std::int64_t b = lease.begin; b < lease.end; ++b) w.held.push_back(b);
  return lease;
}

bool LeaseBook::commit(int worker, std::int64_t batch) {
  Worker& w = workers_[static_cast<std::size_t>(worker)];
  if (!holds(worker, batch)) return false;
  std::erase(w.held, batch);
  if (w.held.empty()) ++w.clock;
  close(batch);
  return true;
}

void LeaseBook::close(std::int64_t batch) {
  ++committed_;
  MUSTER_CHECK(batch >= open_ && beyond_.insert(batch).second, "batch {} committed twice", batch);
  while (beyond_.contains(open_)) beyond_.erase(open_++);
}

std::optional<std::int64_t> LeaseBook::grant_to_all() {
  MUSTER_CHECK(!of_all_, "batch {} is still computed by all", of_all_.value_or(-1));
  const Range batch = take(1);
  if (!batch.empty()) of_all_ = batch.begin;
  return of_all_;
}

void LeaseBook::commit_of_all() {
  MUSTER_CHECK(of_all_.has_value(), "no batch is computed by all");
  close(*of_all_);
  of_all_.reset();
  for (Worker& worker : workers_)
    if (worker.is_live) ++worker.clock;
}

void LeaseBook::return_of_all() {
  MUSTER_CHECK(of_all_.has_value(), "no batch is computed by all");
  returned_.insert(*of_all_);
  of_all_.reset();
}

void LeaseBook::set_seconds_per_batch(int worker, double seconds) {
  workers_[static_cast<std::size_t>(worker)].seconds_per_batch = seconds;
}

std::int64_t LeaseBook::first_open() const {
  std::int64_t open = open_;
  while (beyond_.contains(open)) ++open;
  return open;
}

std::vector<std::int64_t> LeaseBook::committed_beyond() const {
  return {beyond_.lower_bound(first_open()), beyond_.end()};
}

}  // namespace muster::parallel
