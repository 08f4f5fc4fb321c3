// Which transport a gradient reducer gets.
#include "parallel/data/slice_reducer.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <ranges>

namespace muster::parallel {
namespace {

using comm::Communicator;

/// Number of the node of each rank: the rank of the lowest rank there.
std::vector<int> nodes_of(Communicator& data) {
  const auto node = data.split_node("node");
  int lowest = data.rank();
  node->broadcast(std::as_writable_bytes(std::span(&lowest, 1)), 0, "lowest rank of the node");
  std::vector<int> all(static_cast<std::size_t>(data.size()));
  data.all_gather(std::as_bytes(std::span(&lowest, 1)), std::as_writable_bytes(std::span(all)), "nodes of the ranks");
  return all;
}

std::string wire_suffix(const ReducerOptions& options) { return options.wire == Wire::bf16 ? ", bfloat16" : ""; }

void check_wire(const ReducerOptions& options) {
  MUSTER_CHECK(options.elements >= 0 && options.threads >= 1, "options");
}

std::unique_ptr<GradientReducer> make_shared_memory(Communicator& data, const GrainPlan& plan,
                                                    const ReducerOptions& options) {
  const std::vector<int> one_node(static_cast<std::size_t>(data.size()), 0);
  if (data.size() == 1)
    return std::make_unique<SliceReducer>(data, plan, options, one_node, nullptr, nullptr, "one rank, nothing is sent");
  return std::make_unique<SliceReducer>(data, plan, options, one_node, data.split(0, data.rank(), "gradients"), nullptr,
                                        fmt::format("shared memory, {} ranks{}", data.size(), wire_suffix(options)));
}

std::unique_ptr<GradientReducer> make_flat(Communicator& data, const GrainPlan& plan, const ReducerOptions& options,
                                           const std::string& why) {
  std::vector<int> own_node(static_cast<std::size_t>(data.size()));
  std::iota(own_node.begin(), own_node.end(), 0);
  return std::make_unique<SliceReducer>(
      data, plan, options, own_node, nullptr, data.split(0, data.rank(), "gradients"),
      fmt::format("messages between {} ranks{}{}", data.size(), wire_suffix(options), why));
}

std::unique_ptr<GradientReducer> make_hierarchical(Communicator& data, const GrainPlan& plan,
                                                   const ReducerOptions& options, const std::vector<int>& node_of,
                                                   const std::string& why) {
  const bool is_leader = node_of[static_cast<std::size_t>(data.rank())] == data.rank();
  auto local = data.split(node_of[static_cast<std::size_t>(data.rank())], data.rank(), "gradients of the node");
  if (local->size() == 1) local.reset();
  auto leaders = data.split(is_leader ? 0 : -1, data.rank(), "node leaders");
  const auto nodes = 1 + std::ranges::count_if(std::views::iota(1, data.size()), [&](int r) {
                       return node_of[static_cast<std::size_t>(r)] != node_of[static_cast<std::size_t>(r - 1)];
                     });
  return std::make_unique<SliceReducer>(data, plan, options, node_of, std::move(local), std::move(leaders),
                                        fmt::format("shared memory on {} nodes, messages between them, {} ranks{}{}",
                                                    nodes, data.size(), wire_suffix(options), why));
}

/// Seconds of one step of a few buckets, the slowest rank's; collective.
double time_of(Communicator& data, GradientReducer& reducer, std::int64_t elements) {
  constexpr int steps = 4;  // the first touches the memory
  constexpr std::int64_t buckets = 2;
  double best = 1e30;
  for (int step = 0; step < steps; ++step) {
    data.barrier("timing of the reduction");
    const Stopwatch watch;
    reducer.begin_step(step);
    for (std::int64_t b = 0; b < buckets; ++b)
      if (const Slice bucket{elements * b / buckets, elements * (b + 1) / buckets}; !bucket.empty())
        reducer.ready(bucket);
    reducer.finish();
    if (step > 0) best = std::min(best, watch.elapsed_s());
  }
  data.all_reduce(std::span(&best, 1), comm::Reduction::max, "timing of the reduction");
  return best;
}

/// What MUSTER_REDUCE asks for, the same on all ranks, or "".
std::string asked_for(Communicator& data) {
  const char* text = std::getenv("MUSTER_REDUCE");
  const std::string mine = text == nullptr ? "" : text;
  for (const std::string& other : data.all_gather_text(mine, "MUSTER_REDUCE of the ranks"))
    if (other != mine) fail(ExitCode::usage, "MUSTER_REDUCE differs between ranks: '{}' and '{}'", mine, other);
  if (!mine.empty() && mine != "flat" && mine != "hierarchical")
    fail(ExitCode::usage, "MUSTER_REDUCE={}: expected flat or hierarchical", mine);
  return mine;
}

std::unique_ptr<GradientReducer> make_faster(Communicator& data, const GrainPlan& plan, const ReducerOptions& options,
                                             const std::vector<int>& node_of) {
  constexpr std::int64_t probe_elements = 1 << 19;  // two buckets of 1 MiB
  ReducerOptions probe = options;
  probe.elements = std::min(options.elements, probe_elements);
  const auto measure = [&](std::unique_ptr<GradientReducer> reducer) {
    const double seconds = time_of(data, *reducer, probe.elements);
    reducer->close();
    return seconds;
  };
  const double flat_s = measure(make_flat(data, plan, probe, ""));
  const double node_first_s = measure(make_hierarchical(data, plan, probe, node_of, ""));
  const double mebibytes = std::max(static_cast<double>(probe.elements) * sizeof(float) / (1 << 20), 1e-9);
  const std::string why = fmt::format(" (per MiB: node first {:.2f} ms, flat {:.2f} ms)",
                                      node_first_s / mebibytes * 1e3, flat_s / mebibytes * 1e3);
  return node_first_s <= flat_s ? make_hierarchical(data, plan, options, node_of, why)
                                : make_flat(data, plan, options, why);
}

}  // namespace

std::unique_ptr<GradientReducer> make_mirrored(Communicator& data, const GrainPlan& plan,
                                               const ReducerOptions& options) {
  check_wire(options);
  if (!data.is_one_node())
    fail(ExitCode::launch,
         "parallel.strategy: mirrored is for the ranks of one node, but rank {} runs on {} and rank 0 on {}; use "
         "multi_worker_mirrored",
         data.size() - 1, data.host(data.size() - 1), data.host(0));
  return make_shared_memory(data, plan, options);
}

std::unique_ptr<GradientReducer> make_multi_worker(Communicator& data, const GrainPlan& plan,
                                                   const ReducerOptions& options) {
  check_wire(options);
  const std::string asked = asked_for(data);
  if (data.size() == 1) return make_shared_memory(data, plan, options);
  if (asked == "flat") return make_flat(data, plan, options, "");
  if (data.is_one_node()) return make_shared_memory(data, plan, options);
  const std::vector<int> node_of = nodes_of(data);
  const bool are_consecutive = !plan_topology(plan, node_of).nodes.empty();
  if (asked == "hierarchical") {
    if (!are_consecutive)
      fail(ExitCode::launch,
           "MUSTER_REDUCE=hierarchical needs nodes that hold consecutive ranks; start with `mpirun --map-by core` or "
           "`srun --distribution=block`");
    return make_hierarchical(data, plan, options, node_of, "");
  }
  if (!are_consecutive) return make_flat(data, plan, options, " (the nodes' ranks are not consecutive)");
  const bool have_company = std::ranges::any_of(std::views::iota(0, data.size()),
                                                [&](int r) { return node_of[static_cast<std::size_t>(r)] != r; });
  return have_company ? make_faster(data, plan, options, node_of) : make_flat(data, plan, options, "");
}

}  // namespace muster::parallel
