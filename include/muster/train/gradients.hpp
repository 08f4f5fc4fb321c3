// The gradients of one replica between the ops, the reducer and the optimizer. Ops write and the optimizer reads them
// in the backend's memory; the reducer sums them in the host's. With a backend of host memory both are the reducer's
// own buffers and nothing is copied; else slices go out as they get ready and the sum comes back at once. Owned by the
// replica, used by the thread that trains.
#pragma once

#include <muster/device/backend.hpp>
#include <muster/parallel/data/reducer.hpp>

#include <memory>
#include <span>

namespace muster::train {

class Gradients {
 public:
  /// elements: of the parameter store. Both references are kept.
  Gradients(device::Backend& backend, parallel::GradientReducer& reducer, std::int64_t elements);

  /// Where ops write a micro-batch's gradients; the backend's memory.
  std::span<float> written();
  /// What ops have written of `slice` is in the reducer's buffer 0 when this returns.
  void deliver(Range slice);
  /// The sum over the global batch in the backend's memory; after GradientReducer::finish().
  std::span<const float> summed();

 private:
  device::Backend& backend_;
  parallel::GradientReducer& reducer_;
  std::size_t elements_;
  std::unique_ptr<device::Buffer> arena_;  // null: the reducer's buffers serve
};

}  // namespace muster::train
