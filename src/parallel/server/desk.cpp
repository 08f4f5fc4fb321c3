#include "parallel/server/desk.hpp"

#include <algorithm>

namespace muster::parallel {

void add_share(Applied& sum, int worker, const Commit& commit) {
  sum.shares.push_back({worker, static_cast<std::int64_t>(commit.rows)});
  sum.rows += static_cast<std::int64_t>(commit.rows);
  sum.loss_units += static_cast<std::int64_t>(commit.loss_units);
  sum.correct += static_cast<std::int64_t>(commit.correct);
  sum.top_k_correct += static_cast<std::int64_t>(commit.top_k_correct);
  sum.compute_s = std::max(sum.compute_s, static_cast<double>(commit.compute_us) * 1e-6);
  for (std::size_t i = 0; i < sum.index_sums.size(); ++i) sum.index_sums[i] += commit.index_sums[i];
}

Desk::Desk(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes)
    : window_(window),
      roles_(roles),
      board_(roles, shards, 0, sizes),
      members_(static_cast<std::size_t>(roles.workers)) {}

bool Desk::is_asking(int worker) {
  return !member(worker).is_evaluating && word(worker, offsetof(Report, wants)) > member(worker).orders;
}

Commit Desk::commit(int worker, std::uint64_t number) {
  return place<Report>(board_.report(worker)).commit[number % slots_per_worker];
}

Commit Desk::result(int worker) { return place<Report>(board_.report(worker)).result; }

std::vector<std::int64_t> Desk::bases(int worker, std::uint64_t number) {
  const auto* words = &place<std::int64_t>(board_.bases(worker, number));
  return {words, words + roles_.servers};
}

void Desk::write_standing(int worker) {
  const Member& m = member(worker);
  put(worker, offsetof(Order, generation), m.generation);
  put(worker, offsetof(Order, accepted), m.accepted);
  put(worker, offsetof(Order, handled), m.handled);
}

void Desk::decide(int worker, std::uint64_t number, bool is_accepted) {
  Member& m = member(worker);
  if (is_accepted) m.accepted = number;
  m.handled = number;
  write_standing(worker);
}

void Desk::write_order(int worker, TaskKind kind, Order order) {
  Member& m = member(worker);
  Order& there = place<Order>(board_.order(worker));
  there.kind = static_cast<std::uint64_t>(kind);
  there.first = order.first;
  there.last = order.last;
  there.version = order.version;
  there.round = order.round;
  there.replicas = order.replicas;
  there.replica = order.replica;
  write_standing(worker);
  if (kind != TaskKind::wait) ++m.orders;
  put(worker, offsetof(Order, number), m.orders);
}

void Desk::tell_to_leave(int worker) {
  put(worker, offsetof(Order, kind), static_cast<std::uint64_t>(TaskKind::leave));
  put(worker, offsetof(Order, number), ++member(worker).orders);
}

void Desk::write_running_round(std::uint64_t round) {
  for (int w = 0; w < roles_.workers; ++w) put(w, offsetof(Order, running_round), round);
}
void Desk::write_member(int worker, std::uint64_t round) { window_.put_word(round, 0, board_.member(worker)); }

void Desk::write_stopping() {
  for (int w = 0; w < roles_.workers; ++w) put(w, offsetof(Order, is_stopping), 1);
}

void Desk::write_beat() { window_.put_word(window_.get_word(0, board_.beat()) + 1, 0, board_.beat()); }
void Desk::write_ending(Ending ending) { window_.put_word(static_cast<std::uint64_t>(ending), 0, board_.ending()); }

}  // namespace muster::parallel
