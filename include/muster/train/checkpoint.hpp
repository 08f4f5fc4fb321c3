// Checkpoints: the state of a run as plain tensors, without a word about ranks, so a run may go on with any rank count.
// A checkpoint is complete or absent: it is written into a temporary folder, synced, and renamed.
//
//   RUN/checkpoints/step-00001200/manifest.json        step, epoch, samples, size and xxh3 of the other files
//                                 weights.safetensors  trained parameters and running values
//                                 state.h5             optimizer state and counters
#pragma once

#include <muster/tensor/shape.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace muster::train {

struct NamedTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;  ///< plain, row-major
};

struct CheckpointState {
  std::int64_t step = 0;                ///< updates made
  std::int64_t sample_counter = 0;      ///< every sample before this one is consumed, counted over all epochs
  std::int64_t epoch = 0;               ///< epoch in which the next sample lies
  std::array<std::int64_t, 3> audit{};  ///< check sums of the current epoch's samples, over all ranks
  /// Sums over the steps since the last line of the metrics, over all ranks: steps, rows, loss units, correct, top-k
  /// correct. Zero where a line was just written. They make a stop invisible in the metrics.
  std::array<std::int64_t, 5> interval{};
  std::vector<std::int64_t> done_beyond;  ///< asynchronous runs: steps applied although earlier ones are not
  std::string sample_order;  ///< what decides which samples a step gets: seed, batch, samples, shuffle (RunData)
  std::vector<NamedTensor> weights;
  std::vector<NamedTensor> optimizer;  ///< "<slot>/<parameter>"
};

enum class CheckpointParts {
  all,
  weights,  ///< without the optimizer's state: for evaluation and prediction
};

/// Writes checkpoints/step-N below the run directory, then removes the oldest beyond `keep` (at least 1; those of later
/// steps, passed over as damaged by a resume, neither count nor go). Equal states give equal bytes. Called by one rank.
/// Throws Error(checkpoint); then nothing of it is left and older checkpoints are untouched. Returns its folder.
std::filesystem::path save_checkpoint(const std::filesystem::path& run_directory, const CheckpointState& state,
                                      int keep);

/// Folders of all checkpoints by step, whether good or not.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& run_directory);
/// Reads one and verifies sizes and hashes. Throws Error(checkpoint) that names the file and what is wrong with it.
CheckpointState load_checkpoint(const std::filesystem::path& folder, CheckpointParts parts = CheckpointParts::all);
/// The newest good one; a damaged newer one is passed over with a warning. Throws Error(checkpoint) when none is good.
CheckpointState load_newest_checkpoint(const std::filesystem::path& run_directory,
                                       CheckpointParts parts = CheckpointParts::all);

/// safetensors: 8 bytes of header length, a JSON header, the data; tensors in name order, so equal content gives equal
/// bytes. Throws Error(checkpoint); what was written so far stays.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);
/// Float32 files only. Throws Error(checkpoint) for a file that is truncated, has holes or does not match its header.
std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path);

}  // namespace muster::train
