// Sums of doubles along the grain tree. Every rank folds its grains to its subtrees, learns everybody else's, and adds
// all of them itself: the values are few, and one exchange is shorter than two. Inside a node the exchange is shared
// memory:
//
//   rank r writes its rows into half (call % 2) of its part, sets its flag to `call`, waits for all flags >= call,
//   reads. A half is written again two calls later, when all flags have passed the call between: everybody has read it.
//
// Between nodes it is one all-gather.
#include "parallel/data/topology.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/parallel/data/reducer.hpp>

#include <algorithm>
#include <atomic>
#include <new>

namespace muster::parallel {
namespace {

constexpr std::size_t flag_bytes = 64;
constexpr int hot_turns = 300;  // some microseconds before the wait becomes a named one that yields the core

std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }

/// rows[a.into] += rows[a.from] for all additions.
void add_rows(std::span<double> rows, std::size_t width, const std::vector<Addition>& additions) {
  for (const Addition& addition : additions) {
    double* into = rows.data() + static_cast<std::size_t>(addition.into) * width;
    const double* from = rows.data() + static_cast<std::size_t>(addition.from) * width;
#pragma omp simd
    for (std::size_t i = 0; i < width; ++i) into[i] += from[i];
  }
}

class TreeStatisticSum : public StatisticSum {
 public:
  TreeStatisticSum(comm::Communicator& data, const GrainPlan& plan, std::int64_t max_width)
      : data_(data), owned_(plan.grains_of(plan.replica)), max_width_(count_of(max_width)) {
    std::vector<Subtree> all;
    for (int r = 0; r < plan.replicas; ++r) {
      const auto subtrees = maximal_subtrees(plan.grains, plan.grains_of(r));
      subtrees_of_.push_back(subtrees.size());
      most_ = std::max(most_, subtrees.size());
      all.insert(all.end(), subtrees.begin(), subtrees.end());
      if (r != plan.replica) continue;
      for (const Subtree& subtree : subtrees) fold(plan.grains, subtree);
    }
    total_ = additions(plan.grains, all);
    grain_rows_.resize(count_of(owned_.size()) * max_width_);
    all_rows_.resize(all.size() * max_width_);
  }

  void sum(std::span<const double> per_grain, std::span<double> totals, const std::string& what) override {
    const std::size_t width = totals.size();
    MUSTER_CHECK(width <= max_width_, "width {} > {}", width, max_width_);
    MUSTER_CHECK_EQ(per_grain.size(), count_of(owned_.size()) * width);
    std::ranges::copy(per_grain, grain_rows_.begin());
    add_rows(grain_rows_, width, folds_);
    exchange(width, what);
    add_rows(all_rows_, width, total_);
    std::copy_n(all_rows_.begin(), width, totals.begin());
  }

  double waited_s() const override { return waited_s_; }
  void close() override {}

 protected:
  /// Fills all_rows_ with all ranks' subtrees, in rank order.
  virtual void exchange(std::size_t width, const std::string& what) = 0;

  /// This rank's subtree j, in grain_rows_.
  const double* own_row(std::size_t j, std::size_t width) const { return grain_rows_.data() + own_first_[j] * width; }

  comm::Communicator& data_;
  Range owned_;
  std::size_t max_width_;
  std::vector<std::size_t> subtrees_of_;  ///< by rank
  std::size_t most_ = 0;                  ///< of any rank
  std::vector<double> all_rows_;
  double waited_s_ = 0;

 private:
  /// The additions that leave the subtree's sum in the row of its first grain.
  void fold(std::int64_t grains, const Subtree& subtree) {
    std::vector<Subtree> leaves;
    for (std::int64_t g = subtree.first; g < subtree.last; ++g) leaves.push_back({g, g + 1});
    const auto base = static_cast<int>(subtree.first - owned_.begin);
    for (const Addition& addition : additions(grains, leaves))
      folds_.push_back({addition.into + base, addition.from + base});
    own_first_.push_back(static_cast<std::size_t>(base));
  }

  std::vector<Addition> folds_;
  std::vector<Addition> total_;
  std::vector<std::size_t> own_first_;
  std::vector<double> grain_rows_;
};

class SharedStatisticSum final : public TreeStatisticSum {
 public:
  SharedStatisticSum(comm::Communicator& data, const GrainPlan& plan, std::int64_t max_width)
      : TreeStatisticSum(data, plan, max_width), segment_(data.share(bytes(data.rank()))) {
    for (int r = 0; r < data.size(); ++r) {
      std::byte* base = segment_->part(r).data();
      if (r == data.rank()) new (base) Flag(0);
      flags_.push_back(std::launder(reinterpret_cast<Flag*>(base)));
      rows_.push_back(reinterpret_cast<double*>(base + flag_bytes));
    }
    data.barrier("start of the shared statistics memory");
  }

  void close() override { segment_->close(); }

 protected:
  void exchange(std::size_t width, const std::string& what) override {
    const std::uint64_t call = ++calls_;
    const auto me = static_cast<std::size_t>(data_.rank());
    for (std::size_t j = 0; j < subtrees_of_[me]; ++j)
      std::copy_n(own_row(j, width), width, half(me, call) + j * width);
    flags_[me]->store(call, std::memory_order_release);
    wait_for(call, what);
    double* to = all_rows_.data();
    for (std::size_t r = 0; r < rows_.size(); ++r) to = std::copy_n(half(r, call), subtrees_of_[r] * width, to);
  }

 private:
  using Flag = std::atomic<std::uint64_t>;

  std::size_t bytes(int rank) const {
    return flag_bytes + 2 * subtrees_of_[static_cast<std::size_t>(rank)] * max_width_ * sizeof(double);
  }
  double* half(std::size_t rank, std::uint64_t call) {
    return rows_[rank] + call % 2 * subtrees_of_[rank] * max_width_;
  }

  bool have_all(std::uint64_t call) const {
    return std::ranges::all_of(flags_, [&](const Flag* flag) { return flag->load(std::memory_order_acquire) >= call; });
  }

  void wait_for(std::uint64_t call, const std::string& what) {
    if (have_all(call)) return;
    const Stopwatch watch;
    for (int turn = 0; turn < hot_turns; ++turn) {
      __builtin_ia32_pause();
      if (!have_all(call)) continue;
      waited_s_ += watch.elapsed_s();
      return;
    }
    const Deadline deadline(what, data_.deadline_s());
    std::vector<int> missing;
    while (!have_all(call)) {
      if (deadline.is_over())
        for (int r = 0; r < data_.size(); ++r)
          if (flags_[static_cast<std::size_t>(r)]->load() < call) missing.push_back(r);
      data_.poll(deadline, missing);
    }
    waited_s_ += watch.elapsed_s();
  }

  std::unique_ptr<comm::SharedSegment> segment_;
  std::vector<Flag*> flags_;
  std::vector<double*> rows_;
  std::uint64_t calls_ = 0;
};

class GatheredStatisticSum final : public TreeStatisticSum {
 public:
  GatheredStatisticSum(comm::Communicator& data, const GrainPlan& plan, std::int64_t max_width)
      : TreeStatisticSum(data, plan, max_width),
        mine_(most_ * max_width_),
        all_(mine_.size() * count_of(data.size())) {}

 protected:
  void exchange(std::size_t width, const std::string& what) override {
    const Stopwatch watch;
    const auto me = static_cast<std::size_t>(data_.rank());
    const std::size_t chunk = most_ * width;  // ranks with fewer subtrees send some rows of no meaning
    for (std::size_t j = 0; j < subtrees_of_[me]; ++j)
      std::copy_n(own_row(j, width), width, mine_.begin() + static_cast<std::ptrdiff_t>(j * width));
    data_.all_gather(std::as_bytes(std::span(mine_).first(chunk)),
                     std::as_writable_bytes(std::span(all_).first(chunk * subtrees_of_.size())), what);
    double* to = all_rows_.data();
    for (std::size_t r = 0; r < subtrees_of_.size(); ++r)
      to = std::copy_n(all_.data() + r * chunk, subtrees_of_[r] * width, to);
    waited_s_ += watch.elapsed_s();
  }

 private:
  std::vector<double> mine_;
  std::vector<double> all_;
};

class LoneStatisticSum final : public TreeStatisticSum {
 public:
  using TreeStatisticSum::TreeStatisticSum;

 protected:
  void exchange(std::size_t width, const std::string&) override {
    for (std::size_t j = 0; j < subtrees_of_[0]; ++j)
      std::copy_n(own_row(j, width), width, all_rows_.data() + j * width);
  }
};

}  // namespace

std::unique_ptr<StatisticSum> make_statistic_sum(comm::Communicator& data, const GrainPlan& plan,
                                                 std::int64_t max_width) {
  MUSTER_CHECK_EQ(plan.replicas, data.size());
  if (data.size() == 1) return std::make_unique<LoneStatisticSum>(data, plan, max_width);
  if (data.is_one_node()) return std::make_unique<SharedStatisticSum>(data, plan, max_width);
  return std::make_unique<GatheredStatisticSum>(data, plan, max_width);
}

}  // namespace muster::parallel
