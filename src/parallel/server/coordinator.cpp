// See coordinator.hpp for the protocol and board.hpp for the words.
#include <muster/parallel/server/coordinator.hpp>

#include "parallel/server/board.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>

#include <bit>
#include <cstring>

namespace muster::parallel {
namespace {

/// What the coordinator knows of a worker.
struct Member {
  std::uint64_t generation = 1;
  std::uint64_t orders = 0;    // issued
  std::uint64_t handled = 0;   // commits decided on
  std::uint64_t accepted = 0;  // last commit that was applied
  std::uint64_t beat = 0;
  double seen_s = 0;
  bool is_gone = false;
  bool is_spare = false;
  bool is_evaluating = false;
};

struct Follower {
  std::uint64_t beat = 0;
  double seen_s = 0;
};

}  // namespace

struct Coordinator::Impl {
  Impl(comm::Window& its_window, const Roles& its_roles, const Shards& shards, int slots, ShardServer& own,
       LeaseBook& its_book, std::function<double(std::int64_t)> rate, const CoordinatorOptions& its_options)
      : window(its_window),
        roles(its_roles),
        board(its_roles, shards, 0, slots),
        server(own),
        book(its_book),
        lr(std::move(rate)),
        options(its_options),
        followers(static_cast<std::size_t>(its_roles.servers)),
        members(static_cast<std::size_t>(its_roles.workers)) {
    for (int s = 0; s < roles.servers; ++s) boards.emplace_back(roles, shards, s, slots);
    for (Follower& f : followers) f.seen_s = now_s();
    for (int w = 0; w < roles.workers; ++w) {
      Member& m = member(w);
      m.seen_s = now_s();
      m.is_spare = w >= roles.workers - roles.spares;
      if (!m.is_spare) book.join(w);
      write_order(w, TaskKind::wait, 0, 0);
    }
  }

  Member& member(int w) { return members[static_cast<std::size_t>(w)]; }
  std::uint64_t word(int w, std::size_t field) { return window.get_word(0, board.report(w) + field); }
  template <class T>
  T& place(std::size_t offset) {
    return *reinterpret_cast<T*>(window.mine().data() + offset);
  }

  /// The words a worker looks at to know of its generation and commits; the order's number stays.
  void write_standing(int w) {
    const Member& m = member(w);
    window.put_word(m.generation, 0, board.order(w) + offsetof(Order, generation));
    window.put_word(m.accepted, 0, board.order(w) + offsetof(Order, accepted));
    window.put_word(m.handled, 0, board.order(w) + offsetof(Order, handled));
  }
  void write_order(int w, TaskKind kind, std::int64_t first, std::int64_t last) {
    Member& m = member(w);
    Order& order = place<Order>(board.order(w));
    order.kind = static_cast<std::uint64_t>(kind);
    order.first = static_cast<std::uint64_t>(first);
    order.last = static_cast<std::uint64_t>(last);
    write_standing(w);
    if (kind != TaskKind::wait) ++m.orders;
    window.put_word(m.orders, 0, board.order(w) + offsetof(Order, number));
  }

  /// Also to a worker that has not asked and may be reading its order: the batches stay as they are.
  void tell_to_leave(int w) {
    window.put_word(static_cast<std::uint64_t>(TaskKind::leave), 0, board.order(w) + offsetof(Order, kind));
    window.put_word(++member(w).orders, 0, board.order(w) + offsetof(Order, number));
  }

  void keep_snapshot() {
    server.log_snapshot();
    snapshot = Snapshot{server.version(), book.first_open(), book.committed_beyond()};
  }
  void watch_servers();
  void watch(int w);
  void lose(int w, double silent_s);
  void take_commits(int w);
  void decide(int w, std::uint64_t number);
  void take_result(int w);
  void give_order(int w);
  bool recruit_spare();

  comm::Window& window;
  Roles roles;
  Board board;
  ShardServer& server;
  LeaseBook& book;
  std::function<double(std::int64_t)> lr;
  CoordinatorOptions options;
  std::vector<Board> boards;
  std::vector<Follower> followers;
  std::vector<Member> members;

  std::vector<Applied> applied;
  std::vector<Attendance> attendance;
  std::optional<Evaluated> evaluated;
  bool is_granting = true, wants_stop = false;
  bool wants_snapshot = false, wants_evaluation = false;
  std::optional<Snapshot> snapshot;  // in use
};

void Coordinator::Impl::watch_servers() {
  const double now = now_s();
  for (int s = 1; s < roles.servers; ++s) {
    Follower& f = followers[static_cast<std::size_t>(s)];
    if (const std::uint64_t beat = window.get_word(s, Board::alive()); beat != f.beat) {
      f.beat = beat;
      f.seen_s = now;
    } else if (now - f.seen_s > options.deadline_s) {
      fail(ExitCode::comm,
           "lost parameter server {} (rank {}): silent for {:.1f} s (parallel.heartbeat_deadline_s: {:g})", s, s,
           now - f.seen_s, options.deadline_s);
    }
  }
}

/// Does the worker live? One that was gone and has taken over its new generation is back.
void Coordinator::Impl::watch(int w) {
  Member& m = member(w);
  const double now = now_s();
  const std::uint64_t beat = word(w, offsetof(Report, beat));
  if (beat != m.beat) {
    m.beat = beat;
    m.seen_s = now;
    if (m.is_gone && word(w, offsetof(Report, generation)) == m.generation) {
      m.is_gone = false;
      attendance.push_back({w, true, 0});
      if (!m.is_spare) book.join(w);
    }
  } else if (!m.is_gone && now - m.seen_s > options.deadline_s) {
    lose(w, now - m.seen_s);
  }
  if (!m.is_gone && word(w, offsetof(Report, wants_stop)) != 0) wants_stop = true;
}

void Coordinator::Impl::lose(int w, double silent_s) {
  Member& m = member(w);
  m.is_gone = true;
  ++m.generation;
  if (m.is_evaluating) wants_evaluation = true;  // for somebody else
  m.is_evaluating = false;
  const bool was_working = book.is_live(w);
  book.lose(w);
  write_standing(w);
  attendance.push_back({w, false, silent_s});
  if (was_working) recruit_spare();
}

/// A waiting spare takes the place of one that is gone.
bool Coordinator::Impl::recruit_spare() {
  for (int w = 0; w < roles.workers; ++w) {
    Member& m = member(w);
    if (!m.is_spare || m.is_gone) continue;
    m.is_spare = false;
    book.join(w);
    return true;
  }
  return false;
}

void Coordinator::Impl::take_commits(int w) {
  const std::uint64_t made = word(w, offsetof(Report, commits));
  while (member(w).handled < made) {
    const std::uint64_t before = member(w).handled;
    decide(w, before + 1);
    if (member(w).handled == before) return;  // the followers' log is full: next time
  }
}

/// Applied exactly once: the generation must be the worker's present one and the lease book must say that it holds the
/// batch. A worker that is back may still work through a lease of its former life: that is dropped like late work.
void Coordinator::Impl::decide(int w, std::uint64_t number) {
  Member& m = member(w);
  const Commit commit = place<Report>(board.report(w)).commit[number % slots_per_worker];
  const auto batch = static_cast<std::int64_t>(commit.batch);
  Applied event{w,
                batch,
                static_cast<std::int64_t>(commit.base),
                server.version() + 1,
                static_cast<std::int64_t>(commit.rows),
                static_cast<std::int64_t>(commit.loss_units),
                static_cast<std::int64_t>(commit.correct),
                static_cast<std::int64_t>(commit.top_k_correct),
                static_cast<double>(commit.compute_us) * 1e-6,
                commit.is_finite == 1,
                {commit.index_sums[0], commit.index_sums[1], commit.index_sums[2]}};
  const bool is_current = !m.is_gone && commit.generation == m.generation && book.holds(w, batch);
  if (is_current && event.is_finite) {
    if (!server.has_room()) return;
    book.commit(w, batch);
    server.log_update({w, number, event.base, std::bit_cast<double>(commit.grad_scale), lr(server.version())});
    if (!snapshot && options.is_snapshot_due && options.is_snapshot_due(server.version()) && server.has_room())
      keep_snapshot();
    m.accepted = number;
    book.set_seconds_per_batch(w, event.compute_s);
  }
  m.handled = number;
  write_standing(w);
  if (is_current) applied.push_back(event);
}

void Coordinator::Impl::take_result(int w) {
  Member& m = member(w);
  if (!m.is_evaluating || word(w, offsetof(Report, result_of)) != m.orders) return;
  const Commit result = place<Report>(board.report(w)).result;
  m.is_evaluating = false;
  evaluated = Evaluated{snapshot->version,
                        w,
                        static_cast<std::int64_t>(result.rows),
                        static_cast<std::int64_t>(result.loss_units),
                        static_cast<std::int64_t>(result.correct),
                        static_cast<std::int64_t>(result.top_k_correct),
                        result.is_finite == 1};
  book.join(w);
}

void Coordinator::Impl::give_order(int w) {
  Member& m = member(w);
  if (m.is_gone || m.is_spare || m.is_evaluating || book.has_lease(w)) return;
  if (word(w, offsetof(Report, wants)) <= m.orders) return;
  if (wants_evaluation) {
    wants_evaluation = false;
    m.is_evaluating = true;
    book.lose(w);  // nobody waits for its clock meanwhile
    write_order(w, TaskKind::evaluate, snapshot->version, snapshot->version);
    return;
  }
  if (!is_granting) return;
  const std::optional<Range> lease = book.grant(w);
  if (!lease) return;
  write_order(w, TaskKind::train, lease->begin, lease->end);
}

Coordinator::Coordinator(comm::Window& window, const Roles& roles, const Shards& shards, int optimizer_slots,
                         ShardServer& server, LeaseBook& book, std::function<double(std::int64_t)> lr,
                         const CoordinatorOptions& options)
    : impl_(std::make_unique<Impl>(window, roles, shards, optimizer_slots, server, book, std::move(lr), options)) {}
Coordinator::~Coordinator() = default;

void Coordinator::poll() {
  Impl& my = *impl_;
  my.applied.clear();
  my.attendance.clear();
  my.evaluated.reset();
  my.window.progress();
  my.window.put_word(my.window.get_word(0, my.board.beat()) + 1, 0, my.board.beat());
  my.watch_servers();
  if (my.wants_snapshot && !my.snapshot && my.server.has_room()) {
    my.keep_snapshot();
    my.wants_snapshot = false;
  }
  for (int w = 0; w < my.roles.workers; ++w) {
    my.watch(w);
    my.take_commits(w);
    my.take_result(w);
    my.give_order(w);
  }
  if (live() == 0)
    fail(ExitCode::comm, "lost the last worker: all {} are silent (parallel.heartbeat_deadline_s: {:g})",
         my.roles.workers, my.options.deadline_s);
}

const std::vector<Applied>& Coordinator::applied() const { return impl_->applied; }
const std::vector<Attendance>& Coordinator::attendance() const { return impl_->attendance; }
const std::optional<Evaluated>& Coordinator::evaluated() const { return impl_->evaluated; }

void Coordinator::request_snapshot() { impl_->wants_snapshot = true; }

std::optional<Snapshot> Coordinator::snapshot() {
  Impl& my = *impl_;
  if (!my.snapshot) return std::nullopt;
  for (int s = 0; s < my.roles.servers; ++s)
    if (static_cast<std::int64_t>(my.window.get_word(s, Board::snapshotted())) != my.snapshot->version)
      return std::nullopt;
  return my.snapshot;
}
void Coordinator::read_snapshot(int server, int part, std::span<float> shard) {
  Impl& my = *impl_;
  my.window.get(std::as_writable_bytes(shard), server, my.boards[static_cast<std::size_t>(server)].snapshot(part));
  my.window.flush(server);
}
void Coordinator::release_snapshot() { impl_->snapshot.reset(); }
void Coordinator::evaluate_snapshot() {
  MUSTER_CHECK(impl_->snapshot.has_value(), "no snapshot");
  impl_->wants_evaluation = true;
}

void Coordinator::stop_granting() { impl_->is_granting = false; }
bool Coordinator::wants_stop() const { return impl_->wants_stop; }
bool Coordinator::is_idle() const {
  for (int w = 0; w < impl_->roles.workers; ++w)
    if (impl_->book.has_lease(w) || impl_->member(w).is_evaluating) return false;
  return !impl_->wants_evaluation;
}
int Coordinator::live() const {
  int live = 0;
  for (const Member& m : impl_->members) live += m.is_gone ? 0 : 1;
  return live;
}
int Coordinator::lost() const { return impl_->roles.workers - live(); }

void Coordinator::end() {
  Impl& my = *impl_;
  const Ending ending = lost() == 0 ? Ending::clean : Ending::ranks_lost;
  for (int w = 0; w < my.roles.workers; ++w) my.tell_to_leave(w);
  my.window.put_word(static_cast<std::uint64_t>(ending), 0, my.board.ending());
}

}  // namespace muster::parallel
