#include <muster/train/gradients.hpp>

#include <algorithm>

namespace muster::train {

Gradients::Gradients(device::Backend& backend, parallel::GradientReducer& reducer, std::int64_t elements)
    : backend_(backend), reducer_(reducer), elements_(static_cast<std::size_t>(elements)) {
  if (!backend.has_host_memory()) arena_ = backend.allocate(std::max<std::size_t>(elements_, 1) * sizeof(float));
}

std::span<float> Gradients::written() {
  if (!arena_) return reducer_.partial(0).first(elements_);
  return {static_cast<float*>(arena_->data()), elements_};
}

void Gradients::deliver(Range slice) {
  if (!arena_ || slice.empty()) return;
  const auto begin = static_cast<std::size_t>(slice.begin), size = static_cast<std::size_t>(slice.size());
  backend_.copy_out(reducer_.partial(0).data() + begin, written().data() + begin, size * sizeof(float));
}

std::span<const float> Gradients::summed() {
  const std::span<const float> result = reducer_.result().first(elements_);
  if (!arena_) return result;
  backend_.copy_in(arena_->data(), result.data(), result.size_bytes());
  return written();
}

}  // namespace muster::train
