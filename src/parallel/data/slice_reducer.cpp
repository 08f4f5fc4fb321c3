// Why no rank overwrites what another still reads, without double buffers:
//
//   written                        by                      only after                       read until
//   contribution, step s+1         its rank                its own finish() of s            all slices summed (or sent)
//   in s, which finish() awaits node sum, step s+1             owner of the slice      all local ranks announced it
//   leader completed it in s, which finish() awaits result, step s+1               owner / leader          all local
//   ranks announced it      the reader's begin_step(s+1), before it announces
#include "parallel/data/slice_reducer.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>

#include <algorithm>

namespace muster::parallel {

SliceReducer::SliceReducer(comm::Communicator& data, const GrainPlan& plan, const ReducerOptions& options,
                           const std::vector<int>& node_of, std::unique_ptr<comm::Communicator> local,
                           std::unique_ptr<comm::Communicator> leaders, std::string description)
    : data_(data),
      plan_(plan),
      options_(options),
      local_(std::move(local)),
      leaders_(std::move(leaders)),
      description_(std::move(description)),
      topology_(plan_topology(plan, node_of)) {
  MUSTER_CHECK_EQ(data.size(), plan.replicas);
  MUSTER_CHECK_EQ(data.rank(), plan.replica);
  MUSTER_CHECK(!topology_.nodes.empty(), "the nodes' ranks are not consecutive");
  while (plan.replica >= topology_.nodes[node_index_].replicas.end) ++node_index_;
  local_rank_ = plan.replica - static_cast<int>(node().replicas.begin);
  MUSTER_CHECK_EQ(local_ ? local_->size() : 1, local_size());
  MUSTER_CHECK(!has_exchange() || !is_leader() || (leaders_ && leaders_->rank() == static_cast<int>(node_index_)),
               "leaders");
  allocate();
  if (has_exchange() && is_leader())
    exchange_plan_ = std::make_unique<ExchangePlan>(plan_, topology_, options_.wire == Wire::bf16);
}

void SliceReducer::allocate() {
  const Accumulation accumulation = plan_accumulation(plan_.grains, plan_.grains_of(plan_.replica));
  buffers_.resize(static_cast<std::size_t>(accumulation.buffers));
  if (!is_alone()) {
    std::vector<int> shared_buffers;
    for (auto r = node().replicas.begin; r < node().replicas.end; ++r)
      shared_buffers.push_back(static_cast<int>(topology_.subtrees[static_cast<std::size_t>(r)].size()));
    const int sums = has_exchange() ? static_cast<int>(node().parts.size()) : 0;
    memory_ = std::make_unique<NodeMemory>(local_.get(), shared_buffers, sums, options_.elements);
    result_ = memory_->result();
    for (std::size_t j = 0; j < accumulation.of_subtree.size(); ++j)
      buffers_[static_cast<std::size_t>(accumulation.of_subtree[j])] = {
          memory_->buffer(local_rank_, static_cast<int>(j)), result_.size()};
  }
  for (auto& buffer : buffers_)
    if (buffer.data() == nullptr) buffer = own_.emplace_back(options_.elements).span();
  if (is_alone()) result_ = buffers_[static_cast<std::size_t>(accumulation.of_subtree[0])];

  int index = 0;
  for (const NodePart& part : node().parts) {
    std::vector<Subtree> ranges;
    for (const Source& s : part.sources)
      ranges.push_back(topology_.subtrees[static_cast<std::size_t>(s.replica)][static_cast<std::size_t>(s.subtree)]);
    node_sums_.emplace_back(plan_.grains, ranges);
    if (has_exchange())
      node_parts_.push_back(part.is_raw() ? source(part.sources[0], 0)
                                          : Part{memory_->node_sum(index), Encoding::fp32});
    ++index;
  }
}

Part SliceReducer::source(const Source& source, std::int64_t element) {
  const int local = source.replica - static_cast<int>(node().replicas.begin);
  const Encoding encoding = options_.wire == Wire::bf16 ? Encoding::fp32_rounded : Encoding::fp32;
  return {memory_->buffer(local, source.subtree) + element, encoding};
}

void SliceReducer::begin_step(std::int64_t) {
  MUSTER_CHECK(is_alone() || is_done(), "a step begins before the last one's buckets are summed");
  first_ += buckets_.size();
  buckets_.clear();
  hidden_s_ = 0;
}

void SliceReducer::ready(Slice bucket) {
  MUSTER_CHECK(0 <= bucket.begin && bucket.begin < bucket.end && bucket.end <= options_.elements,
               "bucket [{}, {}) of {}", bucket.begin, bucket.end, options_.elements);
  if (is_alone()) return;
  const Stopwatch watch;
  buckets_.push_back(bucket);
  memory_->flags(local_rank_).announced.store(first_ + buckets_.size(), std::memory_order_release);
  advance();
  hidden_s_ += watch.elapsed_s();
}

void SliceReducer::progress() {
  if (buckets_.empty()) return;
  const Stopwatch watch;
  advance();
  hidden_s_ += watch.elapsed_s();
}

ReduceTimes SliceReducer::finish() {
  if (is_alone()) return {};
  const Deadline deadline("gradient sum", data_.deadline_s());
  for (;;) {
    advance();
    if (is_done()) break;
    missing_.clear();
    if (deadline.is_over()) collect_missing();
    data_.poll(deadline, missing_);
  }
  return {deadline.elapsed_s(), hidden_s_};
}

bool SliceReducer::have_all(std::atomic<std::uint64_t> Flags::*stage, std::uint64_t count) {
  for (int r = 0; r < local_size(); ++r)
    if ((memory_->flags(r).*stage).load(std::memory_order_acquire) < count) return false;
  return true;
}

bool SliceReducer::is_done() {
  const std::uint64_t all = first_ + buckets_.size();
  if (has_exchange()) return memory_->flags(0).completed.load(std::memory_order_acquire) >= all;
  return have_all(&Flags::summed, all);
}

void SliceReducer::advance() {
  const std::uint64_t announced = first_ + buckets_.size();
  while (summed_ < announced && have_all(&Flags::announced, summed_ + 1)) {
    sum_node_slice(buckets_[summed_ - first_]);
    memory_->flags(local_rank_).summed.store(++summed_, std::memory_order_release);
  }
  if (has_exchange() && is_leader()) advance_exchanges();
}

void SliceReducer::sum_node_slice(Slice bucket) {
  const Range slice = slice_of(bucket, local_rank_, local_size());
  if (slice.empty()) return;
  for (std::size_t k = 0; k < node_sums_.size(); ++k) {
    const NodePart& part = node().parts[k];
    if (has_exchange() && part.is_raw()) continue;  // the leader reads it where it is
    parts_.clear();
    for (const Source& s : part.sources) parts_.push_back(source(s, slice.begin));
    float* out = (has_exchange() ? memory_->node_sum(static_cast<int>(k)) : result_.data()) + slice.begin;
    node_sums_[k].run(parts_, slice.size(), out, !has_exchange() && options_.wire == Wire::bf16, options_.threads);
  }
}

void SliceReducer::advance_exchanges() {
  while (started_ < summed_ && have_all(&Flags::summed, started_ + 1)) {
    const auto index = static_cast<std::size_t>(started_ - first_);
    if (index == exchanges_.size()) exchanges_.push_back(std::make_unique<Exchange>(*leaders_, *exchange_plan_));
    exchanges_[index]->start(buckets_[index], node_parts_, result_.data(), static_cast<int>(2 * index),
                             options_.threads);
    ++started_;
  }
  // All of them move, the flag counts those completed in order.
  bool is_prefix = true;
  for (std::uint64_t number = completed_; number < started_; ++number) {
    const bool is_complete = exchanges_[static_cast<std::size_t>(number - first_)]->advance();
    is_prefix = is_prefix && is_complete;
    if (is_prefix) ++completed_;
  }
  memory_->flags(0).completed.store(completed_, std::memory_order_release);
}

void SliceReducer::collect_missing() {
  const std::uint64_t all = first_ + buckets_.size();
  const int first_replica = static_cast<int>(node().replicas.begin);
  for (int r = 0; r < local_size(); ++r)
    if (memory_->flags(r).announced.load() < all || memory_->flags(r).summed.load() < all)
      missing_.push_back(first_replica + r);
  if (!missing_.empty() || !has_exchange()) return;
  if (!is_leader()) {
    missing_.push_back(first_replica);
    return;
  }
  std::vector<int> nodes;
  for (std::uint64_t number = completed_; number < started_; ++number)
    exchanges_[static_cast<std::size_t>(number - first_)]->add_missing(nodes);
  for (int n : nodes) missing_.push_back(static_cast<int>(topology_.nodes[static_cast<std::size_t>(n)].replicas.begin));
}

void SliceReducer::close() {
  if (memory_) memory_->close();
  buffers_.clear();
  own_.clear();
  result_ = {};
}

}  // namespace muster::parallel
