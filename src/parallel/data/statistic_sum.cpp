// Sums of doubles along the grain tree. Every rank folds its grains to its subtrees, learns everybody else's, and adds
// all of them itself: the values are few, and one exchange is shorter than two. Inside a node the exchange is shared
// memory:
//
//   rank r writes its rows into half (call % 2) of its part, sets its flag to `call`, waits for all flags >= call,
//   reads. A half is written again two calls later, when all flags have passed the call between: everybody has read it.
//
// Between nodes it is one all-gather.
#include "parallel/data/topology.hpp"
#include "parallel/data/tree_statistic_sum.hpp"

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

class SharedStatisticSum final : public TreeStatisticSum {
 public:
  SharedStatisticSum(comm::Communicator& data, const GrainPlan& plan, std::int64_t max_width)
      : TreeStatisticSum(plan, max_width), data_(data), segment_(data.share(bytes(data.rank()))) {
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

  comm::Communicator& data_;
  std::unique_ptr<comm::SharedSegment> segment_;
  std::vector<Flag*> flags_;
  std::vector<double*> rows_;
  std::uint64_t calls_ = 0;
};

class GatheredStatisticSum final : public TreeStatisticSum {
 public:
  GatheredStatisticSum(comm::Communicator& data, const GrainPlan& plan, std::int64_t max_width)
      : TreeStatisticSum(plan, max_width),
        data_(data),
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
  comm::Communicator& data_;
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
  if (data.size() == 1) return std::make_unique<LoneStatisticSum>(plan, max_width);
  if (data.is_one_node()) return std::make_unique<SharedStatisticSum>(data, plan, max_width);
  return std::make_unique<GatheredStatisticSum>(data, plan, max_width);
}

}  // namespace muster::parallel
