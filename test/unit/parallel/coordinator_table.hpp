// A coordinator at its table, for tests that write by hand what workers would write, at the worst moments. One process,
// one server, two workers, deterministic.
#pragma once

#include "parallel/server/board.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>
#include <muster/parallel/server/coordinator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace muster::parallel {

inline constexpr double deadline_s = 0.05;
inline constexpr std::int64_t elements = 16;

struct Table {
  std::unique_ptr<comm::Session> session = comm::start_session({});
  Roles roles;
  std::vector<optim::ParamRun> runs{{"w", {0, elements}, true}};
  Shards shards = cut_shards(elements, 0, 1, false, runs);
  WindowSizes sizes{0, 2, 4, false, true};
  Board board{roles, shards, 0, sizes};
  std::unique_ptr<comm::Window> window = session->world().window(board.bytes(), comm::WindowKind::shared);
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});
  ShardServer server{*window, roles, shards, sizes, 0, *optimizer, runs, 1};
  LeaseBook book;
  Coordinator coordinator;
  std::array<std::uint64_t, 2> beats{};
  std::uint64_t compute_us = 0, batches = 1;  // of the commits to come

  explicit Table(std::int64_t lock_step_until = 0, double clip_norm = 0, bool keeps_all = false, double stale_rate = 1,
                 double delay_compensation = 0, LeaseOptions leases = {0, true, 1}, int spares = 0)
      : roles{1, 2, spares},
        book({0, 4}, {}, 2, leases),
        coordinator(*window, roles, shards, sizes, server, book,
                    [stale_rate](std::int64_t, std::int64_t staleness) { return staleness > 0 ? stale_rate : 1.0; },
                    {deadline_s, [keeps_all](std::int64_t, std::int64_t) { return keeps_all; }, lock_step_until,
                     [](int) { return std::int64_t{3}; }, clip_norm, delay_compensation}) {
    server.start(0, std::vector<float>(elements), {});
  }

  void put(int worker, std::size_t field, std::uint64_t value) {
    window->put_word(value, 0, board.report(worker) + field);
  }
  std::uint64_t order(int worker, std::size_t field) { return window->get_word(0, board.order(worker) + field); }
  void beat(int worker) { put(worker, offsetof(Report, beat), ++beats[static_cast<std::size_t>(worker)]); }
  void ask(int worker, std::uint64_t number) { put(worker, offsetof(Report, wants), number); }
  void adopt(int worker, std::uint64_t generation) { put(worker, offsetof(Report, generation), generation); }
  /// Writes the commit's gradient (its parts are all `values`), its record and its word. round: of a share.
  void commit(int worker, std::uint64_t number, std::uint64_t generation, std::uint64_t batch, bool is_finite = true,
              std::uint64_t round = 0, std::array<float, 2> values = {1.0f, 1.0f}) {
    for (int part = 0; part < 2; ++part) {
      auto* gradient = reinterpret_cast<float*>(window->mine().data() + board.slot(worker, number, part));
      std::fill_n(gradient, elements, values[static_cast<std::size_t>(part)]);
    }
    Commit record{};
    record.round = round;
    record.generation = generation;
    record.batch = batch;
    record.rows = 1;
    record.batches = batches;
    record.compute_us = compute_us;
    record.grad_scale = std::bit_cast<std::uint64_t>(1.0);
    record.is_finite = is_finite ? 1 : 0;
    std::memcpy(window->mine().data() + board.report(worker) + offsetof(Report, commit) +
                    (number % slots_per_worker) * sizeof(Commit),
                &record, sizeof record);
    put(worker, offsetof(Report, commits), number);
  }
  /// Polls until worker 0 has been silent for too long, worker 1 living on.
  void lose_worker_0() {
    const Deadline limit("the loss of worker 0", 10);
    while (book.is_live(0) && !limit.is_over()) {
      beat(1);
      coordinator.poll();
    }
    ASSERT_FALSE(book.is_live(0));
  }
};

}  // namespace muster::parallel
