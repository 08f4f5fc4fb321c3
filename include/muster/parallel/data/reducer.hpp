// Sums over the global batch: gradients (float, large, overlapped with the backward pass) and statistics (double,
// small). One algorithm text for 1 and n ranks: every rank holds its maximal subtrees (grains.hpp); the elements of a
// bucket are cut into one slice per rank; the owner of a slice adds all ranks' subtrees in tree order and everybody
// reads the result. Only the transport differs: shared memory on a node (peers' buffers are read in place), messages
// between any ranks, or both (inside a node first, then between node leaders).
//
//   rank 0:  [ A0 | B0 | C0 ]      owner of A = rank 0 reads A1, A2; writes A = tree(A0, A1, A2)
//   rank 1:  [ A1 | B1 | C1 ]      ...
//   rank 2:  [ A2 | B2 | C2 ]      cost per rank: (R-1)/R of the bytes out and in, twice; 2 messages
#pragma once

#include <muster/comm/communicator.hpp>
#include <muster/parallel/data/grains.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace muster::parallel {

/// fp32: contributions as they are; bf16: every rank's contribution (its subtrees) and the result are rounded to
/// bfloat16 (nearest even), sums are fp32, so the bits are the same on every rank and over every transport. bf16 is for
/// the fast mode only (the rounding depends on the rank count); with one rank there is no wire and nothing is rounded.
enum class Wire : std::uint8_t { fp32, bf16 };

struct ReduceTimes {
  double exposed_s = 0;  ///< the step waited for communication (inside finish)
  double hidden_s = 0;   ///< time spent in ready() and progress() during the backward pass
};

/// A slice of the flat gradient arena, in elements.
using Slice = Range;

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  /// Number of partial-sum buffers of this rank (Accumulation::buffers): one for the grain being computed, its
  /// subtrees', and those of sums under way. One grain: one.
  virtual int partials() const = 0;
  /// Buffer k, `elements` floats, 64-byte aligned, zeroed at the start. Buffer 0 is what ops write a grain's gradients
  /// into; it stays where it is. After finish() the contents of all of them are unspecified until written again.
  virtual std::span<float> partial(int k) = 0;

  virtual void begin_step(std::int64_t step) = 0;
  /// This rank's contribution to `bucket` is final: subtree j lies in partial(Accumulation::of_subtree[j]). Buckets are
  /// disjoint and come in the same order on all ranks. Starts the reduction and returns at once.
  virtual void ready(Slice bucket) = 0;
  /// Called between ops of the backward pass: moves what is under way.
  virtual void progress() = 0;
  /// Waits until every bucket announced in this step is summed; then result() holds the global sums of all of them.
  virtual ReduceTimes finish() = 0;
  /// The summed gradients; valid from finish() to the next begin_step().
  virtual std::span<const float> result() const = 0;
  virtual std::string describe() const = 0;  ///< "shared memory, 4 ranks" for the start-up table
  /// Collective; releases shared memory.
  virtual void close() = 0;
};

/// Sums the micro-batches' gradients of one replica along the tree into the reducer's partial buffers: after
/// push(grain, slice) for all grains of the replica in order, every subtree of the slice is final.
/// With one grain per replica nothing is moved: the op's output buffer is the subtree.
class GrainAccumulator {
 public:
  GrainAccumulator(const GrainPlan& plan, GradientReducer& reducer, int threads);
  /// partial(0)[slice] holds the gradient of `grain` (zero where the grain has no rows).
  void push(std::int64_t grain, Slice slice);
  /// All grains of this replica contribute zero to the slice.
  void push_zero(Slice slice);

 private:
  Range owned_;
  Accumulation accumulation_;
  GradientReducer& reducer_;
  int threads_;
};

struct ReducerOptions {
  std::int64_t elements = 0;
  Wire wire = Wire::fp32;
  int threads = 1;
};
/// `mirrored`: all ranks on one node (checked, Error(launch)): shared memory. One rank: no copy at all.
std::unique_ptr<GradientReducer> make_mirrored(comm::Communicator& data, const GrainPlan& plan,
                                               const ReducerOptions& options);
/// `multi_worker_mirrored`: any nodes; messages between all ranks or node first, chosen by time measured at start (or
/// by MUSTER_REDUCE=flat|hierarchical) and printed by describe(). Node first needs nodes that hold consecutive ranks;
/// on one node it is shared memory alone. All choices give the same bits. Tests make nodes of k ranks with
/// MUSTER_FAKE_NODE_SIZE=k.
std::unique_ptr<GradientReducer> make_multi_worker(comm::Communicator& data, const GrainPlan& plan,
                                                   const ReducerOptions& options);

/// Small sums of doubles along the same tree (batch-norm statistics, metrics).
class StatisticSum {
 public:
  virtual ~StatisticSum() = default;
  /// per_grain: this replica's values, grains_of(replica).size() rows of `width` doubles, row-major, in grain order
  /// (rows of empty grains are zero). Afterwards totals[width] holds the global sums on every rank. width <= max_width.
  virtual void sum(std::span<const double> per_grain, std::span<double> totals, const std::string& what) = 0;
  virtual double waited_s() const = 0;
  virtual void close() = 0;
};
std::unique_ptr<StatisticSum> make_statistic_sum(comm::Communicator& data, const GrainPlan& plan,
                                                 std::int64_t max_width);

}  // namespace muster::parallel
