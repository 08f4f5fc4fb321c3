// metrics.jsonl: one JSON object per line and interval or evaluation, appended by whole-line writes. Written by rank 0.
#pragma once

#include <muster/train/events.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace muster::train {

/// Keys keep their order. Numbers are printed so that reading them gives the same bits. NaN and Inf become null,
/// followed by the key with "_text" added: "loss": null, "loss_text": "nan" | "inf" | "-inf".
using MetricsLine = std::vector<std::pair<std::string, std::variant<std::int64_t, double, std::string>>>;

class MetricsWriter {
 public:
  MetricsWriter() = default;
  /// Opens for appending. After a resume, lines of steps beyond `resume_step` are dropped first (atomically), so that
  /// no step appears twice; pass -1 for a fresh run. writes_events: also an event file beside it, with the numbers
  /// under "train/..." and "test/...". Throws Error(checkpoint).
  MetricsWriter(const std::filesystem::path& path, std::int64_t resume_step, bool writes_events = false);
  ~MetricsWriter();
  /// After a resume: an evaluation of the resumed step is among the lines kept.
  bool has_evaluation() const { return has_evaluation_; }
  MetricsWriter(MetricsWriter&& other) noexcept
      : name_(std::move(other.name_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        has_evaluation_(other.has_evaluation_),
        events_(std::move(other.events_)) {}
  MetricsWriter& operator=(MetricsWriter&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(has_evaluation_, other.has_evaluation_);
    events_ = std::move(other.events_);
    return *this;
  }
  /// Appends one line in one write. Nothing happens on a default-made writer (other ranks). Throws Error(checkpoint).
  void write(const MetricsLine& line);

 private:
  std::string name_;
  int descriptor_ = -1;
  bool has_evaluation_ = false;
  EventWriter events_;
};

}  // namespace muster::train
