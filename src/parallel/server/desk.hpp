// The coordinator's desk: what it knows of every worker, and the words it exchanges with them (board.hpp). Decides
// nothing. Used by the coordinator's one thread.
#pragma once

#include "parallel/server/board.hpp"
#include "parallel/server/silence.hpp"

#include <muster/comm/window.hpp>
#include <muster/parallel/server/coordinator.hpp>

#include <cstdint>
#include <vector>

namespace muster::parallel {

struct Member {
  std::uint64_t generation = 1;
  std::uint64_t orders = 0;    // issued
  std::uint64_t handled = 0;   // commits decided on
  std::uint64_t accepted = 0;  // last commit that was applied
  Silence silence;
  bool is_gone = false;
  bool is_spare = false;
  bool is_evaluating = false;

  bool takes_part() const { return !is_gone && !is_spare; }
};

/// Adds what a commit says to what its update comes to.
void add_share(Applied& sum, int worker, const Commit& commit);

class Desk {
 public:
  Desk(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes);

  int workers() const { return roles_.workers; }
  Member& member(int worker) { return members_[static_cast<std::size_t>(worker)]; }
  const std::vector<Member>& members() const { return members_; }

  /// A word of the worker's report.
  std::uint64_t word(int worker, std::size_t field) { return window_.get_word(0, board_.report(worker) + field); }
  /// It wants its next order. Not while it evaluates: its result is looked at first.
  bool is_asking(int worker);
  Commit commit(int worker, std::uint64_t number);
  Commit result(int worker);
  /// Versions of the shards that a commit was computed at.
  std::vector<std::int64_t> bases(int worker, std::uint64_t number);

  /// The words a worker looks at to know of its generation and commits; the order's number stays.
  void write_standing(int worker);
  /// Commit `number` is decided on.
  void decide(int worker, std::uint64_t number, bool is_accepted);
  /// number, generation and standing are filled in.
  void write_order(int worker, TaskKind kind, Order order);
  /// Also to a worker that has not asked and may be reading its order: the batches stay as they are.
  void tell_to_leave(int worker);
  /// The round that is computed; 0: none.
  void write_running_round(std::uint64_t round);
  void write_member(int worker, std::uint64_t round);
  void write_stopping();
  void write_beat();
  void write_ending(Ending ending);

 private:
  void put(int worker, std::size_t field, std::uint64_t value) {
    window_.put_word(value, 0, board_.order(worker) + field);
  }
  template <class T>
  T& place(std::size_t offset) {
    return *reinterpret_cast<T*>(window_.mine().data() + offset);
  }

  comm::Window& window_;
  Roles roles_;
  Board board_;
  std::vector<Member> members_;
};

}  // namespace muster::parallel
