#include "doctor/links.hpp"

#include <muster/base/clock.hpp>
#include <muster/comm/window_probe.hpp>
#include <muster/parallel/data/reducer.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <ranges>

namespace muster::doctor {
namespace {

using comm::Communicator;

constexpr std::size_t long_bytes = std::size_t{16} << 20;
constexpr int repeats = 5;
constexpr int round_trips = 200;
constexpr int tag = 1;
constexpr double probe_limit_s = 30;

double slowest_s(Communicator& group, double seconds) {
  group.all_reduce(std::span(&seconds, 1), comm::Reduction::max, "the slowest rank");
  return seconds;
}

double copy_speed(Communicator& world) {
  std::vector<std::byte> from(long_bytes, std::byte{1}), to(long_bytes);
  double best_s = 1e30;
  for (int i = 0; i < repeats; ++i) {
    world.barrier("copies");
    const Stopwatch watch;
    std::memcpy(to.data(), from.data(), from.size());
    best_s = std::min(best_s, slowest_s(world, watch.elapsed_s()));
  }
  return static_cast<double>(long_bytes) / best_s;
}

void pass(Communicator& world, bool is_sender, int peer, std::span<std::byte> bytes) {
  const comm::RequestPtr request = is_sender ? world.send(bytes, peer, tag) : world.receive(bytes, peer, tag);
  world.wait_all(std::span(&request, 1), std::span(&peer, 1), "messages between two ranks");
}

/// Seconds of a message one way, half of the way there and back.
double one_way_s(Communicator& world, int peer, bool is_first, std::span<std::byte> bytes, int trips) {
  const Stopwatch watch;
  for (int i = 0; i < trips; ++i) {
    pass(world, is_first, peer, bytes);
    pass(world, !is_first, peer, bytes);
  }
  return watch.elapsed_s() / (2 * trips);
}

/// Collective; the ranks besides the two wait.
PairFacts measure_pair(Communicator& world, int a, int b) {
  PairFacts facts{a, b, 1e30, 0};
  if (world.rank() == a || world.rank() == b) {
    std::vector<std::byte> bytes(long_bytes);
    const bool is_first = world.rank() == a;
    const int peer = is_first ? b : a;
    one_way_s(world, peer, is_first, bytes, 1);  // connects, touches the memory
    double long_s = 1e30;
    for (int i = 0; i < repeats; ++i) {
      facts.word_s = std::min(facts.word_s, one_way_s(world, peer, is_first, std::span(bytes).first(8), round_trips));
      long_s = std::min(long_s, one_way_s(world, peer, is_first, bytes, 1));
    }
    facts.bytes_per_s = static_cast<double>(long_bytes) / long_s;
  }
  world.broadcast(std::as_writable_bytes(std::span(&facts, 1)), a, "messages between two ranks");
  return facts;
}

ReductionFacts measure_reduction(Communicator& group) {
  const auto ranks = group.size();
  const parallel::GrainPlan plan{.grains = ranks, .unit = 1, .replicas = ranks, .replica = group.rank()};
  const auto reducer = parallel::make_multi_worker(
      group, plan, {.elements = static_cast<std::int64_t>(long_bytes / sizeof(float)), .wire = {}, .threads = 1});
  const auto elements = static_cast<std::int64_t>(long_bytes / sizeof(float));
  ReductionFacts facts{reducer->describe(), long_bytes, 1e30, 0};
  for (int step = 0; step < repeats; ++step) {
    group.barrier("timing of the reduction");
    const Stopwatch watch;
    reducer->begin_step(step);
    for (std::int64_t b = 0; b < 4; ++b) reducer->ready({elements * b / 4, elements * (b + 1) / 4});
    reducer->finish();
    const double seconds = slowest_s(group, watch.elapsed_s());
    if (step > 0) facts.seconds = std::min(facts.seconds, seconds);  // the first touches the memory
  }
  reducer->close();
  facts.bytes_per_s = 2.0 * (ranks - 1) / ranks * static_cast<double>(long_bytes) / facts.seconds;
  return facts;
}

/// The first rank of each node, in rank order.
std::vector<int> node_leaders(Communicator& world, Communicator& node) {
  const std::int64_t is_leader = node.rank() == 0 ? 1 : 0;
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&is_leader, 1)), std::as_writable_bytes(std::span(all)), "node leaders");
  std::vector<int> leaders;
  for (int r = 0; r < world.size(); ++r)
    if (all[static_cast<std::size_t>(r)] != 0) leaders.push_back(r);
  return leaders;
}

/// The description of rank 0's group, on all ranks.
ReductionFacts share(Communicator& world, ReductionFacts facts) {
  facts.how = world.all_gather_text(facts.how, "reduction").front();
  std::array<double, 2> figures{facts.seconds, facts.bytes_per_s};
  world.broadcast(std::as_writable_bytes(std::span(figures)), 0, "reduction");
  return {facts.how, long_bytes, figures[0], figures[1]};
}

}  // namespace

LinkFacts measure_links(Communicator& world) {
  LinkFacts facts;
  facts.copy_bytes_per_s = copy_speed(world);
  if (world.size() == 1) return facts;
  const auto node = world.split_node("node");
  const std::vector<int> leaders = node_leaders(world, *node);
  int neighbour = world.rank() == 0 && node->size() > 1 ? node->world_rank(1).value : 0;
  world.broadcast(std::as_writable_bytes(std::span(&neighbour, 1)), 0, "neighbour of rank 0");
  if (neighbour > 0) facts.within.push_back(measure_pair(world, 0, neighbour));
  constexpr std::size_t most_pairs = 64;
  for (std::size_t i = 1; i < std::min(leaders.size(), most_pairs + 1); ++i)
    facts.between.push_back(measure_pair(world, 0, leaders[i]));
  if (neighbour > 0 && leaders.size() > 1) facts.reductions.push_back(share(world, measure_reduction(*node)));
  facts.reductions.push_back(measure_reduction(world));
  for (const auto kind : {comm::WindowKind::shared, comm::WindowKind::general}) {
    if (kind == comm::WindowKind::shared && leaders.size() > 1) continue;
    const auto window = comm::probe_window(world, kind, 0, world.size() - 1, probe_limit_s);
    facts.one_sided.push_back(std::string(kind == comm::WindowKind::shared ? "shared memory: " : "MPI windows: ") +
                              window.describe(world));
  }
  return facts;
}

}  // namespace muster::doctor
