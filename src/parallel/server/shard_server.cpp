// See board.hpp for who writes what. A new version is made next to the old one in one pass: block by block the old
// weights are copied and updated while they are in the cache.
#include <muster/parallel/server/shard_server.hpp>

#include "parallel/data/host_array.hpp"
#include "parallel/data/tree_sum.hpp"
#include "parallel/server/board.hpp"
#include "parallel/server/silence.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/optim/delay.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

namespace muster::parallel {

namespace {

/// Elements that fit the second-level cache together with gradient and state.
constexpr std::int64_t block_elements = 1 << 15;

std::vector<optim::ParamRun> cut_runs(const std::vector<optim::ParamRun>& runs, bool keeps_whole) {
  std::vector<optim::ParamRun> blocks;
  for (const optim::ParamRun& run : runs) {
    const std::int64_t step = keeps_whole ? std::max<std::int64_t>(run.elements.size(), 1) : block_elements;
    for (std::int64_t begin = run.elements.begin; begin < run.elements.end; begin += step)
      blocks.push_back({run.name, {begin, std::min(begin + step, run.elements.end)}, run.has_decay});
  }
  return blocks;
}

}  // namespace

/// How the shares of n contributors are added: the tree, and whose subtrees its operands are.
struct SumOfShares {
  struct Operand {
    int contributor;
    int part;
  };
  std::vector<Operand> operands;
  TreeSum tree;
};

struct ShardServer::Impl {
  Impl(comm::Window& its_window, const Roles& its_roles, const Shards& its_shards, const WindowSizes& sizes, int number,
       const optim::Optimizer& its_optimizer, const std::vector<optim::ParamRun>& all_runs, int thread_number)
      : window(its_window),
        roles(its_roles),
        server(number),
        board(its_roles, its_shards, number, sizes),
        coordinator(its_roles, its_shards, 0, sizes),
        optimizer(its_optimizer),
        threads(thread_number) {
    const Range range = its_shards.ranges[static_cast<std::size_t>(server)];
    elements = range.size();
    trained = std::clamp<std::int64_t>(its_shards.parameters - range.begin, 0, elements);
    blocks = cut_runs(runs_of_shard(range, all_runs), optimizer.needs_whole_parameters());
    for (std::size_t slot = 0; slot < optimizer.slots().size(); ++slot) state.emplace_back(elements);
  }

  std::span<float> floats(std::size_t offset) {
    return {reinterpret_cast<float*>(window.mine().data() + offset), static_cast<std::size_t>(elements)};
  }
  void put_word(std::size_t offset, std::uint64_t value) { window.put_word(value, server, offset); }
  std::uint64_t word(std::size_t offset) { return window.get_word(server, offset); }

  void update_block(const optim::UpdateContext& context, const optim::ParamRun& block, const float* before,
                    float* after, const float* grads) {
    const auto begin = static_cast<std::size_t>(block.elements.begin);
    const auto size = static_cast<std::size_t>(block.elements.size());
    std::memcpy(after + begin, before + begin, size * sizeof(float));
    std::array<std::span<float>, most_slots> slots;
    for (std::size_t k = 0; k < state.size(); ++k) slots[k] = state[k].span().subspan(begin, size);
    const optim::ParamRun run{{}, {0, block.elements.size()}, block.has_decay};
    optimizer.update(context, {after + begin, size}, {grads + begin, size}, std::span(slots).first(state.size()),
                     {&run, 1});
  }

  /// Every follower has carried out so much that the log's oldest entry may be overwritten.
  bool has_room_in_log() {
    for (int s = 1; s < roles.servers; ++s)
      if (static_cast<std::int64_t>(entries - window.get_word(s, Board::followed())) >= board.log_entries() - 1)
        return false;
    return true;
  }
  void append(LogKind kind, const Update& update) {
    const LogEntry entry{++entries,
                         static_cast<std::uint64_t>(kind),
                         static_cast<std::uint64_t>(update.grains),
                         update.is_summed ? 1u : 0u,
                         std::bit_cast<std::uint64_t>(update.grad_scale),
                         std::bit_cast<std::uint64_t>(update.lr),
                         std::bit_cast<std::uint64_t>(update.delay_compensation),
                         {}};
    std::byte* place = window.mine().data() + board.log_entry(entries);
    std::memcpy(place, &entry, sizeof entry);
    auto* commits = reinterpret_cast<std::uint64_t*>(place + sizeof entry);
    std::fill_n(commits, roles.workers, std::uint64_t{0});
    for (const Contribution& from : update.from) commits[from.worker] = from.commit;
    put_word(board.logged(), entries);  // the others go on beside the coordinator
  }
  /// Of a copy of a log entry.
  Update update_of(std::span<const std::byte> copy) const {
    LogEntry entry{};
    std::memcpy(&entry, copy.data(), sizeof entry);
    Update update{{},
                  static_cast<std::int64_t>(entry.grains),
                  std::bit_cast<double>(entry.grad_scale),
                  std::bit_cast<double>(entry.lr),
                  entry.is_summed != 0,
                  std::bit_cast<double>(entry.delay)};
    for (int w = 0; w < roles.workers; ++w) {
      std::uint64_t commit = 0;
      std::memcpy(&commit, copy.data() + sizeof entry + static_cast<std::size_t>(w) * word_bytes, word_bytes);
      if (commit != 0) update.from.push_back({w, commit});
    }
    return update;
  }

  const SumOfShares& sum_of(std::int64_t grains, int contributors);
  const float* gradient(const Update& update);
  const float* compensated(const Update& update, const float* gradient, const float* now);

  static constexpr std::size_t most_slots = 4;
  comm::Window& window;
  Roles roles;
  int server;
  Board board, coordinator;
  const optim::Optimizer& optimizer;
  int threads;
  std::vector<optim::ParamRun> blocks;
  std::int64_t elements = 0;
  std::int64_t trained = 0;  // of them parameters; running values behind
  std::vector<HostArray> state;
  std::map<std::pair<std::int64_t, int>, SumOfShares> sums;  // by grains and contributors
  HostArray summed, estimated;                               // made when first needed
  std::vector<Part> parts;                                   // of the sum at hand
  std::vector<std::byte> entry_copy;                         // a follower's, of the log's
  std::uint64_t entries = 0;                                 // of the log, appended or carried out
  std::uint64_t looks = 0;
  Silence silence;  // the coordinator's
};

const SumOfShares& ShardServer::Impl::sum_of(std::int64_t grains, int contributors) {
  const auto [found, is_new] = sums.try_emplace({grains, contributors});
  SumOfShares& sum = found->second;
  if (!is_new) return sum;
  const GrainPlan plan{grains, 1, contributors, 0};
  std::vector<Subtree> subtrees;
  for (int c = 0; c < contributors; ++c) {
    int part = 0;
    for (const Subtree& subtree : maximal_subtrees(grains, plan.grains_of(c))) {
      subtrees.push_back(subtree);
      sum.operands.push_back({c, part++});
    }
  }
  sum.tree = TreeSum(grains, subtrees);
  return sum;
}

/// The sum of the shares; a single one is read where it lies.
const float* ShardServer::Impl::gradient(const Update& update) {
  const SumOfShares& sum = sum_of(update.grains, static_cast<int>(update.from.size()));
  parts.clear();
  for (const SumOfShares::Operand& operand : sum.operands) {
    const Contribution& from = update.from[static_cast<std::size_t>(operand.contributor)];
    parts.push_back({floats(board.slot(from.worker, from.commit, operand.part)).data(), Encoding::fp32});
  }
  MUSTER_CHECK(!parts.empty(), "an update of {} contributors", update.from.size());
  if (parts.size() == 1) return static_cast<const float*>(parts.front().data);
  if (update.is_summed) return summed.span().data();
  if (summed.span().empty()) summed = HostArray(elements);
  sum.tree.run(parts, trained, summed.span().data(), false, threads);
  return summed.span().data();
}

/// Of a late gradient, what it would be at the weights of now, as far as can be told; scaled already.
const float* ShardServer::Impl::compensated(const Update& update, const float* gradient, const float* now) {
  if (estimated.span().empty()) estimated = HostArray(elements);
  MUSTER_CHECK_EQ(update.from.size(), std::size_t{1});
  const float* then = floats(board.pulled(update.from.front().worker, update.from.front().commit)).data();
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && blocks.size() > 1)
  for (const optim::ParamRun& block : blocks) {
    const auto begin = static_cast<std::size_t>(block.elements.begin);
    const auto size = static_cast<std::size_t>(block.elements.size());
    optim::compensate_delay({gradient + begin, size}, update.grad_scale, update.delay_compensation, {now + begin, size},
                            {then + begin, size}, estimated.span().subspan(begin, size));
  }
  return estimated.span().data();
}

ShardServer::ShardServer(comm::Window& window, const Roles& roles, const Shards& shards, const WindowSizes& sizes,
                         int server, const optim::Optimizer& optimizer, const std::vector<optim::ParamRun>& runs,
                         int threads)
    : impl_(std::make_unique<Impl>(window, roles, shards, sizes, server, optimizer, runs, threads)) {
  MUSTER_CHECK(optimizer.slots().size() <= Impl::most_slots, "{} slots", optimizer.slots().size());
}
ShardServer::~ShardServer() = default;

std::size_t ShardServer::window_bytes(const Roles& roles, const Shards& shards, int server, const WindowSizes& sizes) {
  return Board(roles, shards, server, sizes).bytes();
}

void ShardServer::start(std::int64_t version, std::span<const float> weights,
                        const std::vector<std::span<const float>>& state) {
  MUSTER_CHECK_EQ(static_cast<std::int64_t>(weights.size()), impl_->elements);
  MUSTER_CHECK_EQ(state.size(), impl_->state.size());
  version_ = version;
  std::ranges::copy(weights, impl_->floats(impl_->board.version(version)).begin());
  for (std::size_t k = 0; k < state.size(); ++k) std::ranges::copy(state[k], impl_->state[k].span().begin());
  impl_->put_word(Board::published(), static_cast<std::uint64_t>(version));
}

void ShardServer::apply(const Update& update) {
  Impl& my = *impl_;
  const float* before = my.floats(my.board.version(version_)).data();
  float* after = my.floats(my.board.version(version_ + 1)).data();
  const float* gradient = my.gradient(update);
  optim::UpdateContext context{update.lr, version_ + 1, update.grad_scale, 1};
  if (update.delay_compensation > 0) {
    gradient = my.compensated(update, gradient, before);
    context.grad_scale = 1;
  }
#pragma omp parallel for num_threads(my.threads) schedule(static) if (my.threads > 1 && my.blocks.size() > 1)
  for (std::size_t b = 0; b < my.blocks.size(); ++b) my.update_block(context, my.blocks[b], before, after, gradient);
  const Contribution& first = update.from.front();
  const float* running = my.floats(my.board.slot(first.worker, first.commit, 0)).data();
  std::copy(running + my.trained, running + my.elements, after + my.trained);
  ++version_;
  my.put_word(Board::published(), static_cast<std::uint64_t>(version_));
  for (const Contribution& from : update.from) my.put_word(my.board.applied(from.worker), from.commit);
}

void ShardServer::sum(const Update& update) {
  Impl& my = *impl_;
  const float* gradient = my.gradient(update);
  auto* squares = reinterpret_cast<double*>(my.window.mine().data() + my.board.squares());
  optim::square_pieces({gradient, static_cast<std::size_t>(my.trained)}, my.threads,
                       {squares, static_cast<std::size_t>(optim::norm_pieces(my.trained))});
  my.put_word(Board::squared(), my.entries);
}

void ShardServer::keep_snapshot() {
  Impl& my = *impl_;
  std::ranges::copy(my.floats(my.board.version(version_)), my.floats(my.board.snapshot(0)).begin());
  for (std::size_t k = 0; k < my.state.size(); ++k)
    std::ranges::copy(my.state[k].span(), my.floats(my.board.snapshot(static_cast<int>(k) + 1)).begin());
  my.put_word(Board::snapshotted(), static_cast<std::uint64_t>(version_));
}

bool ShardServer::has_room() const { return impl_->has_room_in_log(); }

void ShardServer::log_update(const Update& update) {
  impl_->append(LogKind::update, update);
  apply(update);
}

std::uint64_t ShardServer::log_sum(const Update& update) {
  impl_->append(LogKind::sum, update);
  sum(update);
  return impl_->entries;
}

void ShardServer::log_snapshot() {
  impl_->append(LogKind::snapshot, {});
  keep_snapshot();
}

Ending ShardServer::look_up(double deadline_s) {
  Impl& my = *impl_;
  my.window.progress();
  my.put_word(Board::alive(), ++my.looks);
  const double silent_s = my.silence.look(my.window.get_word(0, my.coordinator.beat()), now_s(), deadline_s);
  if (silent_s > deadline_s)
    fail(ExitCode::comm, "lost the coordinator (rank 0): silent for {:.1f} s (parallel.heartbeat_deadline_s: {:g})",
         silent_s, deadline_s);
  return static_cast<Ending>(my.window.get_word(0, my.coordinator.ending()));
}

bool ShardServer::follow_log() {
  Impl& my = *impl_;
  if (my.window.get_word(0, my.coordinator.logged()) <= my.entries) return false;
  my.entry_copy.resize(my.coordinator.entry_bytes());
  my.window.get(my.entry_copy, 0, my.coordinator.log_entry(my.entries + 1));
  my.window.flush(0);
  LogEntry entry{};
  std::memcpy(&entry, my.entry_copy.data(), sizeof entry);
  ++my.entries;
  MUSTER_CHECK_EQ(entry.number, my.entries);
  switch (static_cast<LogKind>(entry.kind)) {
    case LogKind::snapshot:
      keep_snapshot();
      break;
    case LogKind::sum:
      sum(my.update_of(my.entry_copy));
      break;
    case LogKind::update:
      apply(my.update_of(my.entry_copy));
      break;
  }
  my.put_word(Board::followed(), my.entries);
  my.put_word(Board::alive(), ++my.looks);  // a server that has much to do lives, too
  return true;
}

}  // namespace muster::parallel
