// Scalars as TensorBoard reads them: a file of records (TFRecord framing), each an Event message in the wire format of
// protocol buffers (https://github.com/tensorflow/tensorboard, compat/proto/event.proto and summary.proto). Written
// natively: the three messages and the framing are less than a library for them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace muster::train {

using Scalars = std::vector<std::pair<std::string, double>>;  ///< tag ("train/loss") and value

class EventWriter {
 public:
  EventWriter() = default;
  /// A new file events.out.tfevents.SECONDS.muster.N in the directory. After a resume (resume_step >= 0) it tells
  /// readers to drop what earlier files say of later steps. Throws Error(checkpoint).
  EventWriter(const std::filesystem::path& directory, std::int64_t resume_step);
  EventWriter(EventWriter&& other) noexcept
      : name_(std::move(other.name_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  EventWriter& operator=(EventWriter&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~EventWriter();
  /// One record, in one write. Nothing happens on a default-made writer. Throws Error(checkpoint).
  void write(std::int64_t step, const Scalars& scalars);

 private:
  void append(const std::string& event);

  std::string name_;
  int descriptor_ = -1;
};

/// A record: length, masked CRC-32C of the length, the bytes, masked CRC-32C of the bytes; all little endian.
std::string framed(const std::string& bytes);

}  // namespace muster::train
