// What happened in an asynchronous run, in order: which worker computed which batch from which versions of the shards,
// and which version its update made. With the config that determines every bit of the run, so that it can be computed
// again (replay.cpp). A line of JSON per update in RUN/record.jsonl; a run that is resumed goes on with it.
#pragma once

#include <muster/parallel/server/coordinator.hpp>
#include <muster/train/metrics.hpp>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace muster::train {

struct RecordedUpdate {
  std::int64_t steps = 0;    ///< batches of the run that are applied, these included
  std::int64_t version = 0;  ///< that it made; the same as steps but where several batches make an update
  std::int64_t batch = 0;
  std::int64_t batches = 1;  ///< from `batch` on
  bool is_fresh = false;     ///< the worker's own optimizer began with an empty state
  std::int64_t grains = 1;   ///< leaves of the sum tree, where several workers had shares
  std::vector<std::int64_t> workers;
  std::vector<std::int64_t> bases;  ///< version of every shard that it was computed at
};

struct Record {
  std::int64_t first_step = 0;  ///< batches applied before the first update
  std::int64_t threads = 1;     ///< per worker: kernels may sum differently with other numbers
  std::vector<RecordedUpdate> updates;
};

class RecordWriter {
 public:
  RecordWriter() = default;  ///< writes nothing
  /// first_version: what the run starts or resumes with; resume: drop what came after it. Throws Error(checkpoint).
  RecordWriter(const std::filesystem::path& run_directory, std::int64_t first_version, bool is_resumed, int threads);
  void write(const parallel::Applied& update);

 private:
  MetricsWriter lines_;
};

/// Throws Error(usage) where the run was not recorded, or not from its beginning, or on changing numbers of threads.
Record read_record(const std::filesystem::path& run_directory);

}  // namespace muster::train
