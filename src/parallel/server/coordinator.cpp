// See coordinator.hpp for the protocol and board.hpp for the words.
#include <muster/parallel/server/coordinator.hpp>

#include "parallel/server/desk.hpp"
#include "parallel/server/round.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/base/pause.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace muster::parallel {

struct Coordinator::Impl {
  Impl(comm::Window& its_window, const Roles& its_roles, const Shards& its_shards, const WindowSizes& sizes,
       ShardServer& own, LeaseBook& its_book, UpdateRate rate, const CoordinatorOptions& its_options)
      : window(its_window),
        roles(its_roles),
        shards(its_shards),
        server(own),
        book(its_book),
        lr(std::move(rate)),
        options(its_options),
        desk(its_window, its_roles, its_shards, sizes),
        round(desk, its_book, its_options.grains_of),
        followers(static_cast<std::size_t>(its_roles.servers)) {
    for (int s = 0; s < roles.servers; ++s) boards.emplace_back(roles, shards, s, sizes);
    for (int w = 0; w < roles.workers; ++w) {
      Member& m = desk.member(w);
      m.is_spare = w >= roles.workers - roles.spares;
      if (!m.is_spare) book.join(w);
      desk.write_order(w, TaskKind::wait, {});
    }
  }

  bool is_lock_step() const { return server.version() < options.lock_step_until; }
  bool is_due(std::int64_t before, std::int64_t after) const {
    return options.is_snapshot_due && options.is_snapshot_due(before, after);
  }
  void keep_snapshot() {
    wants_snapshot = false;
    server.log_snapshot();
    snapshot = Snapshot{server.version(), book.first_open(), book.committed_beyond()};
  }
  void watch_servers();
  void watch(int w);
  void lose(int w, double silent_s);
  void fill_places();
  bool is_deserted() const;
  bool have_all_left();
  void take_commits(int w);
  void decide(int w, std::uint64_t number);
  void log_update(const Update& update, std::int64_t batches);
  void complete_round();
  std::optional<double> norm_of_sum();
  void take_result(int w);
  void give_order(int w);

  comm::Window& window;
  Roles roles;
  const Shards& shards;
  ShardServer& server;
  LeaseBook& book;
  UpdateRate lr;
  CoordinatorOptions options;
  Desk desk;
  Round round;
  std::vector<Board> boards;
  std::vector<Silence> followers;

  std::vector<Applied> applied;
  std::vector<Attendance> attendance;
  std::optional<Evaluated> evaluated;
  int open_places = 0;  // of workers that are gone, while no spare could take them
  bool is_granting = true, wants_stop = false;
  bool wants_snapshot = false, wants_evaluation = false;
  std::uint64_t sum_entry = 0;       // of the log: the sum of the complete round; 0: not asked for
  std::optional<Snapshot> snapshot;  // in use
};

void Coordinator::Impl::watch_servers() {
  const double now = now_s();
  for (int s = 1; s < roles.servers; ++s) {
    const double silent_s =
        followers[static_cast<std::size_t>(s)].look(window.get_word(s, Board::alive()), now, options.deadline_s);
    if (silent_s > options.deadline_s)
      fail(ExitCode::comm,
           "lost parameter server {} (rank {}): silent for {:.1f} s (parallel.heartbeat_deadline_s: {:g})", s, s,
           silent_s, options.deadline_s);
  }
}

/// Does the worker live? One that was gone and has taken over its new generation is back.
void Coordinator::Impl::watch(int w) {
  Member& m = desk.member(w);
  const double silent_s = m.silence.look(desk.word(w, offsetof(Report, beat)), now_s(), options.deadline_s);
  if (m.is_gone && silent_s == 0 && desk.word(w, offsetof(Report, generation)) == m.generation) {
    m.is_gone = false;
    attendance.push_back({w, true, 0});
    if (m.is_spare) return fill_places();
    open_places = std::max(0, open_places - 1);
    book.join(w);
  } else if (!m.is_gone && silent_s > options.deadline_s) {
    lose(w, silent_s);
  }
  if (!m.is_gone && desk.word(w, offsetof(Report, wants_stop)) != 0) wants_stop = true;
}

void Coordinator::Impl::lose(int w, double silent_s) {
  Member& m = desk.member(w);
  m.is_gone = true;
  ++m.generation;
  if (m.is_evaluating) wants_evaluation = true;  // for somebody else
  m.is_evaluating = false;
  book.lose(w);
  desk.write_standing(w);
  round.lose(w);
  attendance.push_back({w, false, silent_s});
  if (m.is_spare) return;
  ++open_places;
  fill_places();
}

/// Waiting spares take the places of those that are gone.
void Coordinator::Impl::fill_places() {
  for (int w = 0; w < roles.workers && open_places > 0; ++w) {
    Member& m = desk.member(w);
    if (!m.is_spare || m.is_gone) continue;
    m.is_spare = false;
    book.join(w);
    --open_places;
  }
}

bool Coordinator::Impl::have_all_left() {
  for (int w = 0; w < roles.workers; ++w)
    if (!desk.member(w).is_gone && desk.word(w, offsetof(Report, has_left)) == 0) return false;
  return true;
}

bool Coordinator::Impl::is_deserted() const {
  return std::ranges::none_of(desk.members(), [](const Member& m) { return m.takes_part(); });
}

void Coordinator::Impl::take_commits(int w) {
  const std::uint64_t made = desk.word(w, offsetof(Report, commits));
  while (desk.member(w).handled < made) {
    const std::uint64_t before = desk.member(w).handled;
    decide(w, before + 1);
    if (desk.member(w).handled == before) return;  // the followers' log is full: next time
  }
}

/// Applied exactly once: the generation must be the worker's present one and the lease book must say that it holds the
/// batch. A worker that is back may still work through a lease of its former life: that is dropped like late work.
/// The share of a round waits for the others; that of a round that was given up is dropped, too.
void Coordinator::Impl::decide(int w, std::uint64_t number) {
  const Member& m = desk.member(w);
  const Commit commit = desk.commit(w, number);
  const bool is_present = !m.is_gone && commit.generation == m.generation;
  if (commit.round != 0) {
    if (!is_present || !round.take(w, number, commit)) desk.decide(w, number, false);
    return;
  }
  const auto first = static_cast<std::int64_t>(commit.batch);
  const Range batches{first, first + static_cast<std::int64_t>(commit.batches)};
  if (!is_present || !book.holds(w, batches)) return desk.decide(w, number, false);
  Applied event;
  event.batch = first;
  event.batches = batches.size();
  event.is_fresh = commit.is_fresh == 1;
  event.base = static_cast<std::int64_t>(commit.base);
  event.bases = desk.bases(w, number);
  event.version = server.version() + 1;
  event.is_finite = commit.is_finite == 1;
  add_share(event, w, commit);
  if (event.is_finite) {
    if (!server.has_room()) return;
    for (std::int64_t batch = batches.begin; batch < batches.end; ++batch) book.commit(w, batch);
    event.steps = book.applied();
    const double rate = lr(server.version(), server.version() - event.base);
    const bool is_late = event.base < server.version();
    log_update({{{w, number}},
                1,
                std::bit_cast<double>(commit.grad_scale),
                rate,
                false,
                is_late ? options.delay_compensation : 0},
               batches.size());
    book.set_seconds_per_batch(w, event.compute_s / static_cast<double>(batches.size()));
  }
  desk.decide(w, number, event.is_finite);
  applied.push_back(std::move(event));
}

/// The book holds its batches already.
void Coordinator::Impl::log_update(const Update& update, std::int64_t batches) {
  server.log_update(update);
  if (!is_due(book.applied() - batches, book.applied())) return;
  wants_snapshot = true;  // later, where its place is taken
  if (!snapshot && server.has_room()) keep_snapshot();
}

/// All shares are there: one update. Where the sum is clipped, the servers add it first and tell its norm.
void Coordinator::Impl::complete_round() {
  if (!round.is_complete()) return;
  if (!round.is_finite()) return applied.push_back(round.finish(server.version() + 1));
  if (!server.has_room() || (snapshot && is_due(book.applied(), book.applied() + 1)))
    return;  // everybody waits: none is missed
  Update update = round.update();
  if (options.clip_norm > 0) {
    if (sum_entry == 0) {
      sum_entry = server.log_sum(update);
      return;
    }
    const std::optional<double> norm = norm_of_sum();
    if (!norm) return;
    update.grad_scale = optim::clip_scale(*norm, options.clip_norm);
    update.is_summed = true;
  }
  sum_entry = 0;
  update.lr = lr(server.version(), 0);
  // The book first: a snapshot made with the update holds its batch.
  const Applied event = round.finish(server.version() + 1);
  log_update(update, 1);
  applied.push_back(event);
}

/// Of the complete round's gradient, once all servers have added theirs: their pieces in order.
std::optional<double> Coordinator::Impl::norm_of_sum() {
  for (int s = 0; s < roles.servers; ++s)
    if (window.get_word(s, Board::squared()) != sum_entry) return std::nullopt;
  double sum = 0;
  for (int s = 0; s < roles.servers; ++s) {
    const Range range = shards.ranges[static_cast<std::size_t>(s)];
    const std::int64_t trained = std::clamp<std::int64_t>(shards.parameters - range.begin, 0, range.size());
    std::vector<double> squares(static_cast<std::size_t>(optim::norm_pieces(trained)));
    window.get(std::as_writable_bytes(std::span(squares)), s, boards[static_cast<std::size_t>(s)].squares());
    window.flush(s);
    for (double square : squares) sum += square;
  }
  return std::sqrt(sum);
}

void Coordinator::Impl::take_result(int w) {
  Member& m = desk.member(w);
  if (!m.is_evaluating || desk.word(w, offsetof(Report, result_of)) != m.orders) return;
  const Commit result = desk.result(w);
  m.is_evaluating = false;
  evaluated = Evaluated{snapshot->steps(),
                        w,
                        static_cast<std::int64_t>(result.rows),
                        static_cast<std::int64_t>(result.loss_units),
                        static_cast<std::int64_t>(result.correct),
                        static_cast<std::int64_t>(result.top_k_correct),
                        result.is_finite == 1};
  book.join(w);
}

void Coordinator::Impl::give_order(int w) {
  Member& m = desk.member(w);
  if (!m.takes_part() || !desk.is_asking(w)) return;
  if (book.has_lease(w)) {
    // A worker that asks again at a stop has left the rest of its lease.
    if (is_granting || m.handled < desk.word(w, offsetof(Report, commits))) return;
    book.lose(w);
    book.join(w);
  }
  Order order{};
  if (wants_evaluation) {
    wants_evaluation = false;
    m.is_evaluating = true;
    book.lose(w);  // nobody waits for its clock meanwhile
    order.first = static_cast<std::uint64_t>(snapshot->version);
    return desk.write_order(w, TaskKind::evaluate, order);
  }
  if (!is_granting || is_lock_step()) return;
  const std::optional<Range> lease = book.grant(w);
  if (!lease) return;
  order.first = static_cast<std::uint64_t>(lease->begin);
  order.last = static_cast<std::uint64_t>(lease->end);
  desk.write_order(w, TaskKind::train, order);
}

Coordinator::Coordinator(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes,
                         ShardServer& server, LeaseBook& book, UpdateRate lr, const CoordinatorOptions& options)
    : impl_(std::make_unique<Impl>(window, roles, shards, sizes, server, book, std::move(lr), options)) {}
Coordinator::~Coordinator() = default;

void Coordinator::poll() {
  Impl& my = *impl_;
  my.applied.clear();
  my.attendance.clear();
  my.evaluated.reset();
  my.window.progress();
  my.desk.write_beat();
  my.watch_servers();
  if (my.wants_snapshot && !my.snapshot && my.server.has_room()) {
    my.keep_snapshot();
  }
  for (int w = 0; w < my.roles.workers; ++w) {
    my.watch(w);
    my.take_commits(w);
    my.take_result(w);
    my.give_order(w);
  }
  my.complete_round();
  if (my.is_granting && my.is_lock_step()) my.round.start_if_all_ask(my.server.version());
  if (my.wants_evaluation && my.is_deserted()) {  // nobody will
    my.wants_evaluation = false;
    my.evaluated = Evaluated{.steps = my.snapshot->steps()};
  }
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

void Coordinator::stop_granting() {
  impl_->is_granting = false;
  impl_->desk.write_stopping();
}
bool Coordinator::is_deserted() const { return impl_->is_deserted(); }
bool Coordinator::wants_stop() const { return impl_->wants_stop; }
bool Coordinator::is_idle() const {
  for (int w = 0; w < impl_->roles.workers; ++w)
    if (impl_->book.has_lease(w) || impl_->desk.member(w).is_evaluating) return false;
  return !impl_->wants_evaluation && !impl_->round.is_running();
}
int Coordinator::live() const {
  int live = 0;
  for (const Member& m : impl_->desk.members()) live += m.is_gone ? 0 : 1;
  return live;
}
int Coordinator::lost() const { return impl_->roles.workers - live(); }

void Coordinator::end() {
  Impl& my = *impl_;
  my.desk.write_stopping();
  for (int w = 0; w < my.roles.workers; ++w) my.desk.tell_to_leave(w);
  // A worker may have died a moment ago: only those that answer can come to a collective end.
  const Stopwatch waiting;
  while (!my.have_all_left()) {
    my.window.progress();
    my.desk.write_beat();
    for (int w = 0; w < my.roles.workers; ++w) my.watch(w);
    pass_time(waiting.elapsed_s());
  }
  my.desk.write_ending(lost() == 0 ? Ending::clean : Ending::ranks_lost);
}

}  // namespace muster::parallel
