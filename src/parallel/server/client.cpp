// See client.hpp and board.hpp.
#include <muster/parallel/server/client.hpp>

#include "parallel/data/bfloat16.hpp"
#include "parallel/server/board.hpp"
#include "parallel/server/silence.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/base/pause.hpp>

#include <algorithm>
#include <atomic>
#include <bit>

namespace muster::parallel {
struct ServerClient::Impl {
  Impl(comm::Window& its_window, const Roles& its_roles, const Shards& its_shards, const WindowSizes& sizes, int number,
       std::function<bool()> stop, const ClientOptions& its_options)
      : window(its_window),
        roles(its_roles),
        shards(its_shards),
        worker(number),
        is_stop_requested(std::move(stop)),
        options(its_options),
        held(static_cast<std::size_t>(its_roles.servers), -1),
        encoded(sizes.is_bf16 ? static_cast<std::size_t>(its_shards.parameters) : 0) {
    for (int s = 0; s < roles.servers; ++s) boards.emplace_back(roles, shards, s, sizes);
    generation = 1;
    put(offsetof(Report, generation), generation);
    beat_now();
  }

  const Board& board(int server) const { return boards[static_cast<std::size_t>(server)]; }
  void put(std::size_t field, std::uint64_t value) { window.put_word(value, 0, board(0).report(worker) + field); }
  std::uint64_t order_word(std::size_t field) { return window.get_word(0, board(0).order(worker) + field); }

  void beat_now() {
    last_beat_s = now_s();
    put(offsetof(Report, beat), ++beats);
    if (!has_told_stop && is_stop_requested()) {
      has_told_stop = true;
      put(offsetof(Report, wants_stop), 1);
    }
  }
  void beat() {
    if (now_s() - last_beat_s > options.beat_interval_s) beat_now();
  }

  /// One turn of a wait: beats, and makes sure that the coordinator does.
  void wait_a_moment(double waited_s) {
    beat();
    const double silent_s = coordinator.look(window.get_word(0, board(0).beat()), now_s(), options.server_deadline_s);
    if (silent_s > options.server_deadline_s)
      fail(ExitCode::comm,
           "lost the coordinator (rank 0): it has been silent for {:.1f} s (parallel.heartbeat_deadline_s: {:g})",
           silent_s, options.server_deadline_s);
    pass_time(waited_s);
  }
  template <class Done>
  void wait_until(const Done& done) {
    const Stopwatch watch;
    coordinator = Silence();
    while (!done()) wait_a_moment(watch.elapsed_s());
  }

  void check_sizes(std::size_t parameters, std::size_t running) const {
    MUSTER_CHECK_EQ(static_cast<std::int64_t>(parameters), shards.parameters);
    MUSTER_CHECK_EQ(static_cast<std::int64_t>(running), shards.running);
  }
  Ending ending() { return static_cast<Ending>(window.get_word(0, board(0).ending())); }
  /// Declared gone, or the round was given up.
  bool is_void() {
    return order_word(offsetof(Order, generation)) != generation ||
           (round != 0 && order_word(offsetof(Order, running_round)) != round);
  }
  bool is_told_to_leave() { return order_word(offsetof(Order, kind)) == static_cast<std::uint64_t>(TaskKind::leave); }
  void check_task() {
    if (is_void() || is_told_to_leave()) throw VoidTask();
  }
  void adopt_generation() {
    generation = order_word(offsetof(Order, generation));
    put(offsetof(Report, generation), generation);
  }

  template <class Values, class Body>
  void for_pieces(int s, Values parameters, Values running, const Body& body);
  void get_shard(int s, std::size_t from, std::span<float> parameters, std::span<float> running);
  bool pull_shard(int s, std::span<float> parameters, std::span<float> running);
  template <class Element, class Place>
  void put_elements(const Range& elements, std::span<const Element> values, const Place& place);
  bool is_slot_free(std::uint64_t number);
  void wait_for_slot();
  std::vector<int> members_of_round();

  comm::Window& window;
  Roles roles;
  Shards shards;
  int worker;
  std::function<bool()> is_stop_requested;
  ClientOptions options;
  std::vector<Board> boards;
  std::vector<std::int64_t> held;      // version of every shard in the last pull
  std::vector<std::uint16_t> encoded;  // the gradient of the next commit as it is pushed, where that is bfloat16
  std::uint64_t generation = 0, beats = 0, commits = 0, order = 0;
  std::uint64_t round = 0;   // the task's; 0: a whole batch
  std::vector<int> members;  // of the round, asked for when first needed
  std::uint64_t calls = 0;   // exchanges of statistics in the round
  bool has_slot = false;     // for the next commit
  double last_beat_s = 0, last_look_s = 0;
  Silence coordinator;  // in the wait at hand
  bool has_told_stop = false, is_stopping = false;
};

/// Calls body(values of the model, offset in the shard) for the parameters and the running values of a shard.
template <class Values, class Body>
void ServerClient::Impl::for_pieces(int s, Values parameters, Values running, const Body& body) {
  const Range range = shards.ranges[static_cast<std::size_t>(s)];
  const auto begin = static_cast<std::size_t>(range.begin), end = static_cast<std::size_t>(range.end);
  const std::size_t cut = std::clamp(parameters.size(), begin, end);
  if (cut > begin) body(parameters.subspan(begin, cut - begin), std::size_t{0});
  if (end > cut) body(running.subspan(cut - parameters.size(), end - cut), (cut - begin) * sizeof(float));
}

void ServerClient::Impl::get_shard(int s, std::size_t from, std::span<float> parameters, std::span<float> running) {
  for_pieces(s, parameters, running, [&](std::span<float> values, std::size_t offset) {
    window.get(std::as_writable_bytes(values), s, from + offset);
  });
  window.flush(s);
}

/// False: the version was overwritten while it was copied.
bool ServerClient::Impl::pull_shard(int s, std::span<float> parameters, std::span<float> running) {
  std::int64_t& version = held[static_cast<std::size_t>(s)];
  const auto newest = static_cast<std::int64_t>(window.get_word(s, Board::published()));
  if (newest == version) return true;
  get_shard(s, board(s).version(newest), parameters, running);
  std::atomic_thread_fence(std::memory_order_acquire);  // the copy is over before the word is read again
  const auto after = static_cast<std::int64_t>(window.get_word(s, Board::published()));
  if (after > newest + version_buffers - 2) return false;
  version = newest;
  return true;
}

/// Commit `number` may write its slot: what was there two commits ago has been decided on and, where accepted, applied
/// by every server.
bool ServerClient::Impl::is_slot_free(std::uint64_t number) {
  if (number <= slots_per_worker) return true;
  const std::uint64_t before = number - slots_per_worker;
  if (order_word(offsetof(Order, handled)) < before) return false;
  const std::uint64_t needed = std::min(order_word(offsetof(Order, accepted)), before);
  for (int s = 0; s < roles.servers; ++s)
    if (window.get_word(s, board(s).applied(worker)) < needed) return false;
  return true;
}

ServerClient::ServerClient(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes,
                           int worker, std::function<bool()> is_stop_requested, const ClientOptions& options)
    : impl_(std::make_unique<Impl>(window, roles, shards, sizes, worker, std::move(is_stop_requested), options)) {}
ServerClient::~ServerClient() = default;

Task ServerClient::next_task() {
  Impl& my = *impl_;
  my.round = 0;
  my.members.clear();
  my.calls = 0;
  my.has_slot = false;
  if (my.is_void()) my.adopt_generation();
  std::uint64_t wanted = my.order + 1;
  my.put(offsetof(Report, wants), wanted);
  my.wait_until([&] {
    if (my.is_void()) my.adopt_generation();
    return my.order_word(offsetof(Order, number)) >= wanted;
  });
  Order order{};
  my.window.get(std::as_writable_bytes(std::span(&order, 1)), 0, my.board(0).order(my.worker));
  my.window.flush(0);
  my.order = order.number;
  const Range batches{static_cast<std::int64_t>(order.first), static_cast<std::int64_t>(order.last)};
  switch (static_cast<TaskKind>(order.kind)) {
    case TaskKind::train:
      return {Task::Kind::train, batches, 0, 1, 0};
    case TaskKind::share:
      my.round = order.round;
      return {Task::Kind::share, batches, static_cast<std::int64_t>(order.version), static_cast<int>(order.replicas),
              static_cast<int>(order.replica)};
    case TaskKind::evaluate:
      return {Task::Kind::evaluate, {}, static_cast<std::int64_t>(order.first), 1, 0};
    default:
      return {Task::Kind::leave, {}, 0, 1, 0};
  }
}

std::int64_t ServerClient::pull(std::span<float> parameters, std::span<float> running, std::int64_t at_least) {
  Impl& my = *impl_;
  my.check_sizes(parameters.size(), running.size());
  for (int s = 0; s < my.roles.servers; ++s)
    my.wait_until([&] {
      my.check_task();
      return static_cast<std::int64_t>(my.window.get_word(s, Board::published())) >= at_least;
    });
  Silence whole;  // a copy that was held up, by a link that was cut or by a pause, says nothing of the next one
  int tries = 0;
  for (int s = 0; s < my.roles.servers; ++s)
    while (!my.pull_shard(s, parameters, running)) {
      my.beat();
      ++tries;
      if (whole.look(0, now_s(), my.options.server_deadline_s) > my.options.server_deadline_s)
        fail(ExitCode::comm,
             "'pull of a whole version' failed {} times over more than {:g} s: server {} makes versions faster than "
             "this worker can copy one; use more servers or fewer workers",
             tries, my.options.server_deadline_s, s);
    }
  return *std::ranges::min_element(my.held);
}

void ServerClient::pull_snapshot(std::span<float> parameters, std::span<float> running) {
  Impl& my = *impl_;
  my.check_sizes(parameters.size(), running.size());
  std::ranges::fill(my.held, -1);
  for (int s = 0; s < my.roles.servers; ++s) my.get_shard(s, my.board(s).snapshot(0), parameters, running);
}

void ServerClient::forget() { std::ranges::fill(impl_->held, -1); }

void ServerClient::Impl::wait_for_slot() {
  if (has_slot) return;
  wait_until([&] {
    check_task();
    return is_slot_free(commits + 1);
  });
  has_slot = true;
}

/// Starts copying elements of the model to where each server has its shard: at place(server's board).
template <class Element, class Place>
void ServerClient::Impl::put_elements(const Range& elements, std::span<const Element> values, const Place& place) {
  MUSTER_CHECK_EQ(static_cast<std::int64_t>(values.size()), elements.size());
  wait_for_slot();
  for (int s = 0; s < roles.servers; ++s) {
    const Range shard = shards.ranges[static_cast<std::size_t>(s)];
    const Range piece{std::max(elements.begin, shard.begin), std::min(elements.end, shard.end)};
    if (piece.begin >= piece.end) continue;
    const std::span<const Element> cut =
        values.subspan(static_cast<std::size_t>(piece.begin - elements.begin), static_cast<std::size_t>(piece.size()));
    window.put(std::as_bytes(cut), s,
               place(board(s)) + static_cast<std::size_t>(piece.begin - shard.begin) * sizeof(Element));
  }
}

void ServerClient::push(int part, const Range& elements, std::span<const float> values) {
  Impl& my = *impl_;
  const auto slot = [&](const Board& board) { return board.slot(my.worker, my.commits + 1, part); };
  if (my.encoded.empty() || elements.begin >= my.shards.parameters) return my.put_elements(elements, values, slot);
  MUSTER_CHECK(part == 0 && elements.end <= my.shards.parameters, "part {} up to {}", part, elements.end);
  const auto rounded = std::span(my.encoded).subspan(static_cast<std::size_t>(elements.begin), values.size());
  encode_bfloat16(values.data(), elements.size(), rounded.data());
  my.put_elements(elements, std::span<const std::uint16_t>(rounded), slot);
}

void round_as_pushed(std::span<float> gradient) {
  round_bfloat16(gradient.data(), static_cast<std::int64_t>(gradient.size()), gradient.data());
}

void ServerClient::push_pulled(std::span<const float> weights) {
  Impl& my = *impl_;
  my.put_elements({0, my.shards.parameters}, weights,
                  [&](const Board& board) { return board.pulled(my.worker, my.commits + 1); });
}

/// The workers of the round in the order of their shares; fewer than there are shares where it was given up meanwhile.
std::vector<int> ServerClient::Impl::members_of_round() {
  std::vector<int> found;
  for (int w = 0; w < roles.workers; ++w)
    if (window.get_word(0, board(0).member(w)) == round) found.push_back(w);
  return found;
}

void ServerClient::exchange_statistics(std::span<const double> mine, std::span<const std::size_t> sizes,
                                       std::span<double> all) {
  Impl& my = *impl_;
  const Board& board = my.board(0);
  if (my.members.empty()) my.members = my.members_of_round();
  if (my.members.size() != sizes.size()) throw VoidTask();
  // Rounds and calls in one growing number: what a worker has shown last says how far it is.
  const std::uint64_t call = ++my.calls, shown = (my.round << 20U) + call;
  my.window.put(std::as_bytes(mine), 0, board.rows(my.worker, call));
  my.window.flush(0);
  my.window.put_word(shown, 0, board.calls(my.worker));
  std::size_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const int w = my.members[i];
    my.wait_until([&] {
      if (my.window.get_word(0, board.calls(w)) >= shown) return true;
      my.check_task();
      return false;
    });
    my.window.get(std::as_writable_bytes(all.subspan(at, sizes[i])), 0, board.rows(w, call));
    at += sizes[i];
  }
  my.window.flush(0);
}

namespace {

Commit commit_of(const CommitFacts& facts, std::uint64_t generation, std::int64_t base) {
  Commit commit{};
  commit.generation = generation;
  commit.batch = static_cast<std::uint64_t>(facts.batch);
  commit.base = static_cast<std::uint64_t>(base);
  commit.rows = static_cast<std::uint64_t>(facts.rows);
  commit.loss_units = static_cast<std::uint64_t>(facts.loss_units);
  commit.correct = static_cast<std::uint64_t>(facts.correct);
  commit.top_k_correct = static_cast<std::uint64_t>(facts.top_k_correct);
  commit.grad_scale = std::bit_cast<std::uint64_t>(facts.grad_scale);
  commit.compute_us = static_cast<std::uint64_t>(facts.compute_s * 1e6);
  commit.is_finite = facts.is_finite ? 1 : 0;
  std::ranges::copy(facts.index_sums, commit.index_sums);
  commit.batches = static_cast<std::uint64_t>(facts.batches);
  commit.is_fresh = facts.is_fresh ? 1 : 0;
  return commit;
}

}  // namespace

void ServerClient::commit(const CommitFacts& facts) {
  Impl& my = *impl_;
  my.wait_for_slot();
  const std::uint64_t number = my.commits + 1;
  for (int s = 0; s < my.roles.servers; ++s) my.window.flush(s);
  Commit commit = commit_of(facts, my.generation, *std::ranges::min_element(my.held));
  commit.round = my.round;
  const Board& board = my.board(0);
  my.window.put(std::as_bytes(std::span(my.held)), 0, board.bases(my.worker, number));
  my.window.put(std::as_bytes(std::span(&commit, 1)), 0,
                board.report(my.worker) + offsetof(Report, commit) + (number % slots_per_worker) * sizeof(Commit));
  my.window.flush(0);
  my.put(offsetof(Report, commits), number);
  my.commits = number;
  my.has_slot = false;
  my.beat();
}

bool ServerClient::was_accepted() {
  Impl& my = *impl_;
  if (my.commits == 0) return true;
  my.wait_until([&] {
    my.check_task();
    return my.order_word(offsetof(Order, handled)) >= my.commits;
  });
  return my.order_word(offsetof(Order, accepted)) >= my.commits;
}

void ServerClient::report_result(const CommitFacts& facts) {
  Impl& my = *impl_;
  const Commit result = commit_of(facts, my.generation, 0);
  my.window.put(std::as_bytes(std::span(&result, 1)), 0, my.board(0).report(my.worker) + offsetof(Report, result));
  my.window.flush(0);
  my.put(offsetof(Report, result_of), my.order);
}

void ServerClient::beat() { impl_->beat(); }
bool ServerClient::is_run_stopping() {
  Impl& my = *impl_;
  if (!my.is_stopping && now_s() - my.last_look_s > my.options.beat_interval_s) {
    my.last_look_s = now_s();
    my.is_stopping = my.order_word(offsetof(Order, is_stopping)) != 0;
  }
  return my.is_stopping;
}
bool ServerClient::ends_clean() {
  Impl& my = *impl_;
  my.put(offsetof(Report, has_left), 1);
  my.wait_until([&] { return my.ending() != Ending::none; });
  return my.ending() == Ending::clean;
}

}  // namespace muster::parallel
