// The part of every StatisticSum that is arithmetic: a replica folds its grains to its subtrees, learns everybody
// else's (exchange, which is all that differs), and adds all of them along the grain tree.
#pragma once

#include <muster/base/check.hpp>
#include <muster/parallel/data/reducer.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace muster::parallel {

/// rows[a.into] += rows[a.from] for all additions.
inline void add_rows(std::span<double> rows, std::size_t width, const std::vector<Addition>& additions) {
  for (const Addition& addition : additions) {
    double* into = rows.data() + static_cast<std::size_t>(addition.into) * width;
    const double* from = rows.data() + static_cast<std::size_t>(addition.from) * width;
#pragma omp simd
    for (std::size_t i = 0; i < width; ++i) into[i] += from[i];
  }
}

class TreeStatisticSum : public StatisticSum {
 public:
  TreeStatisticSum(const GrainPlan& plan, std::int64_t max_width)
      : replica_(plan.replica), owned_(plan.grains_of(plan.replica)), max_width_(static_cast<std::size_t>(max_width)) {
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
    grain_rows_.resize(static_cast<std::size_t>(owned_.size()) * max_width_);
    all_rows_.resize(all.size() * max_width_);
  }

  void sum(std::span<const double> per_grain, std::span<double> totals, const std::string& what) override {
    const std::size_t width = totals.size();
    MUSTER_CHECK(width <= max_width_, "width {} > {}", width, max_width_);
    MUSTER_CHECK_EQ(per_grain.size(), static_cast<std::size_t>(owned_.size()) * width);
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

  int replica_;
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

}  // namespace muster::parallel
