// The prefetch thread: reads, decodes and transforms this rank's rows of the coming batches while the current step
// runs. Owns a fixed ring of batch buffers (nothing is allocated per batch) and the dataset while it runs. next() is
// for one consumer thread. An exception in the thread is rethrown by next(). The destructor stops and joins the thread.
#pragma once

#include <muster/base/ids.hpp>
#include <muster/base/rng.hpp>
#include <muster/dataset/dataset.hpp>
#include <muster/dataset/sampler.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace muster::dataset {

/// One rank's rows of one global batch. Pointers stay valid until the next call of BatchQueue::next().
struct Batch {
  BatchPosition position;
  Range rows;                         ///< this rank's rows of the global batch; may be empty
  const float* inputs = nullptr;      ///< plain float32 [rows, input_shape...], normalised and augmented
  const void* targets = nullptr;      ///< int32 [rows] or float32 [rows, target_shape...]
  std::vector<std::int64_t> indices;  ///< dataset index of each row
};

/// This rank's rows of a global batch of that many samples.
using RowsOf = std::function<Range(std::int64_t)>;

struct QueueOptions {
  std::uint64_t seed = 0;
  std::int64_t batch = 0;         ///< global batch
  std::int64_t first_sample = 0;  ///< the queue's first order: batches from this global sample counter (resume) ...
  std::int64_t last_sample = 0;   ///< ... to this one
  int depth = 2;                  ///< batches held ready
  bool is_training = true;        ///< shuffle and augment; else in index order, normalise only
  bool check_finite = true;
  bool reads_inputs = true;  ///< else they are not read, and Batch::inputs is null; targets likewise
  bool reads_targets = true;
  ShuffleOptions shuffle;
  TransformOptions transforms;
  RowsOf rows_of;  ///< where an order says nothing else
};

class BatchQueue {
 public:
  BatchQueue(std::unique_ptr<Dataset> dataset, QueueOptions options);
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  /// Puts the batches of another stretch of global sample counters behind those already ordered. rows_of: of these, at
  /// most as many as QueueOptions::rows_of gives; empty: as there.
  void order(Range samples, RowsOf rows_of = {});
  /// The next batch in order, or null when all that was ordered has been handed out. Waits for the prefetch thread; the
  /// wait is counted as stall.
  const Batch* next();
  /// Seconds next() has waited so far.
  double stall_s() const;
  const Dataset& dataset() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Applies the transforms to one sample. stored: sample as read, plain; out: float32 plain. The augmentation of a
/// sample depends on (seed, epoch, dataset index) only.
class Transform {
 public:
  Transform(const TransformOptions& options, const Dataset& dataset, std::uint64_t seed, bool is_training);
  void apply(const void* stored, std::int64_t epoch, std::int64_t index, float* out) const;

 private:
  void crop(const RandomStream& random, float* out) const;
  void flip(float* out) const;
  void cut(const RandomStream& random, float* out) const;

  TransformOptions options_;
  Shape shape_;
  DType dtype_;
  std::uint64_t seed_;
  bool is_training_;
  std::vector<float> scale_, shift_;  // per channel: out = stored * scale + shift
};

}  // namespace muster::dataset
