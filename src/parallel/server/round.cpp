#include "parallel/server/round.hpp"

#include <muster/base/check.hpp>

#include <algorithm>

namespace muster::parallel {

Round::Round(Desk& desk, LeaseBook& book, std::function<std::int64_t(int)> grains_of)
    : desk_(desk), book_(book), grains_of_(std::move(grains_of)) {}

void Round::start_if_all_ask(std::int64_t version) {
  if (is_running_) return;
  shares_.clear();
  for (int w = 0; w < desk_.workers(); ++w) {
    if (!desk_.member(w).takes_part()) continue;
    if (!desk_.is_asking(w)) return;
    shares_.push_back(w);
  }
  if (shares_.empty()) return;
  const std::optional<std::int64_t> batch = book_.grant_to_all();
  if (!batch) return;
  batch_ = *batch;
  version_ = version;
  is_running_ = true;
  ++number_;
  commits_.clear();
  for (int w : shares_) desk_.write_member(w, number_);
  desk_.write_running_round(number_);
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    Order order{};
    order.first = static_cast<std::uint64_t>(batch_);
    order.last = order.first + 1;
    order.version = static_cast<std::uint64_t>(version);
    order.round = number_;
    order.replicas = shares_.size();
    order.replica = i;
    desk_.write_order(shares_[i], TaskKind::share, order);
  }
}

bool Round::take(int worker, std::uint64_t number, const Commit& commit) {
  if (!is_running_ || commit.round != number_) return false;
  commits_[worker] = {number, commit};
  return true;
}

void Round::lose(int worker) {
  if (!is_running_ || is_complete() || std::ranges::find(shares_, worker) == shares_.end()) return;
  book_.return_of_all();
  end();
}

void Round::end() {
  is_running_ = false;
  desk_.write_running_round(0);
}

bool Round::is_finite() const {
  return std::ranges::all_of(commits_, [](const auto& kept) { return kept.second.commit.is_finite == 1; });
}

Update Round::update() const {
  Update update;
  for (int w : shares_) update.from.push_back({w, commits_.at(w).number});
  update.grains = grains_of_(static_cast<int>(shares_.size()));
  return update;
}

Applied Round::finish(std::int64_t version) {
  MUSTER_CHECK(is_complete(), "{} of {} shares are there", commits_.size(), shares_.size());
  Applied sum;
  sum.batch = batch_;
  sum.base = version_;
  sum.version = version;
  sum.grains = grains_of_(static_cast<int>(shares_.size()));
  sum.is_finite = is_finite();
  for (int w : shares_) {
    const Kept& kept = commits_.at(w);
    add_share(sum, w, kept.commit);
    desk_.decide(w, kept.number, sum.is_finite);
  }
  sum.bases = desk_.bases(shares_.front(), commits_.at(shares_.front()).number);
  if (sum.is_finite) book_.commit_of_all();
  sum.steps = book_.applied();
  end();
  return sum;
}

}  // namespace muster::parallel
