#include <muster/parallel/server/share.hpp>

#include "parallel/data/host_array.hpp"
#include "parallel/data/tree_statistic_sum.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace muster::parallel {
namespace {

class ShareReducer final : public GradientReducer {
 public:
  ShareReducer(ServerClient& client, const GrainPlan& plan, std::int64_t elements, std::int64_t parameters)
      : client_(client),
        plan_(plan),
        parameters_(parameters),
        accumulation_(plan_accumulation(plan.grains, plan.grains_of(plan.replica))) {
    for (int k = 0; k < accumulation_.buffers; ++k) buffers_.emplace_back(elements);
  }

  int partials() const override { return accumulation_.buffers; }
  std::span<float> partial(int k) override { return buffers_[static_cast<std::size_t>(k)].span(); }
  void begin_step(std::int64_t) override { hidden_s_ = 0; }
  void ready(Slice bucket) override {
    const Stopwatch watch;
    const Range sent{bucket.begin, std::min(bucket.end, parameters_)};
    if (sent.begin < sent.end)
      for (std::size_t j = 0; j < accumulation_.of_subtree.size(); ++j)
        client_.push(static_cast<int>(j), sent, cut(subtree(j), sent));
    hidden_s_ += watch.elapsed_s();
  }
  void progress() override {}
  /// The tail of the arena, added over the subtrees, is what this worker says; the servers add the rest.
  ReduceTimes finish() override {
    const Range tail{parameters_, static_cast<std::int64_t>(subtree(0).size())};
    for (std::size_t j = 1; j < accumulation_.of_subtree.size(); ++j) {
      const std::span<float> into = cut(subtree(0), tail), from = cut(subtree(j), tail);
      for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
    }
    return {0, hidden_s_};
  }
  std::span<const float> result() const override { return const_cast<ShareReducer*>(this)->subtree(0); }
  std::string describe() const override {
    return fmt::format("parameter servers, share {} of {}", plan_.replica + 1, plan_.replicas);
  }
  void close() override {}

 private:
  std::span<float> subtree(std::size_t j) { return partial(accumulation_.of_subtree[j]); }
  static std::span<float> cut(std::span<float> arena, const Range& range) {
    return arena.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
  }

  ServerClient& client_;
  GrainPlan plan_;
  std::int64_t parameters_;
  Accumulation accumulation_;
  std::vector<HostArray> buffers_;
  double hidden_s_ = 0;
};

class ShareStatisticSum final : public TreeStatisticSum {
 public:
  ShareStatisticSum(ServerClient& client, const GrainPlan& plan, std::int64_t max_width)
      : TreeStatisticSum(plan, max_width), client_(client), mine_(most_ * max_width_), sizes_(subtrees_of_.size()) {}

 protected:
  void exchange(std::size_t width, const std::string&) override {
    const Stopwatch watch;
    const std::size_t rows = subtrees_of_[static_cast<std::size_t>(replica_)];
    for (std::size_t j = 0; j < rows; ++j)
      std::copy_n(own_row(j, width), width, mine_.begin() + static_cast<std::ptrdiff_t>(j * width));
    if (sizes_.size() == 1) {
      std::copy_n(mine_.begin(), rows * width, all_rows_.begin());
      return;
    }
    std::size_t total = 0;
    for (std::size_t r = 0; r < sizes_.size(); ++r) total += sizes_[r] = subtrees_of_[r] * width;
    client_.exchange_statistics(std::span(mine_).first(rows * width), sizes_, std::span(all_rows_).first(total));
    waited_s_ += watch.elapsed_s();
  }

 private:
  ServerClient& client_;
  std::vector<double> mine_;
  std::vector<std::size_t> sizes_;  // doubles per share in the exchange at hand
};

}  // namespace

std::unique_ptr<GradientReducer> make_share_reducer(ServerClient& client, const GrainPlan& plan, std::int64_t elements,
                                                    std::int64_t parameters) {
  return std::make_unique<ShareReducer>(client, plan, elements, parameters);
}

std::unique_ptr<StatisticSum> make_share_statistics(ServerClient& client, const GrainPlan& plan,
                                                    std::int64_t max_width) {
  return std::make_unique<ShareStatisticSum>(client, plan, max_width);
}

int most_subtrees(int workers, const std::function<std::int64_t(int)>& grains_of) {
  std::size_t most = 1;
  for (int n = 1; n <= workers; ++n) {
    const GrainPlan plan{grains_of(n), 1, n, 0};
    for (int r = 0; r < n; ++r) most = std::max(most, maximal_subtrees(plan.grains, plan.grains_of(r)).size());
  }
  return static_cast<int>(most);
}

}  // namespace muster::parallel
