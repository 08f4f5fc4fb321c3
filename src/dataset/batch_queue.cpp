// A ring of slots between one producer (the prefetch thread) and one consumer. Slot i % n belongs to the producer while
// i >= produced, to the consumer while i < consumed + 1; the mutex guards the two counters, the orders and the failure.
#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/dataset/batch_queue.hpp>

#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace muster::dataset {
namespace {

struct Slot {
  Batch batch;
  std::vector<float> inputs;
  std::vector<std::byte> targets;
};

/// Global sample counters not yet worked on, and which rows of their batches.
struct Order {
  Range samples;
  RowsOf rows_of;
};

}  // namespace

struct BatchQueue::Impl {
  Impl(std::unique_ptr<Dataset> data, QueueOptions queue_options)
      : dataset(std::move(data)),
        options(std::move(queue_options)),
        transform(options.transforms, *dataset, options.seed, options.is_training),
        slots(static_cast<std::size_t>(std::max(options.depth, 1)) + 1) {
    elements = dataset->input_shape().elements();
    stored_bytes = static_cast<std::size_t>(elements) * size_of(dataset->input_dtype());
    target_bytes = static_cast<std::size_t>(dataset->target_shape().elements()) * 4;
    const auto rows = static_cast<std::size_t>(longest_share());
    if (options.reads_inputs) stored.resize(rows * stored_bytes);
    for (Slot& slot : slots) {
      if (options.reads_inputs) slot.inputs.resize(rows * static_cast<std::size_t>(elements));
      if (options.reads_targets) slot.targets.resize(rows * target_bytes);
      slot.batch.indices.reserve(rows);
    }
    order({options.first_sample, options.last_sample}, {});
    thread = std::thread([this] { produce(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      is_stopping = true;
    }
    changed.notify_all();
    thread.join();
  }

  /// Rows of this rank in the largest batch; a tail may be cut less evenly.
  std::int64_t longest_share() const {
    const std::int64_t size = dataset->size();
    std::int64_t longest = options.rows_of(std::min(options.batch, size)).size();
    if (size % options.batch != 0) longest = std::max(longest, options.rows_of(size % options.batch).size());
    return longest;
  }

  void order(Range samples, RowsOf rows_of) {
    if (samples.empty()) return;
    {
      const std::lock_guard lock(mutex);
      orders.push_back({samples, std::move(rows_of)});
    }
    changed.notify_all();
  }

  void produce() {
    try {
      while (is_ordered()) {
        Slot& slot = slots[static_cast<std::size_t>(produced) % slots.size()];
        take_order(slot.batch);
        fill(slot);
        {
          const std::lock_guard lock(mutex);
          ++produced;
          is_filling = false;
        }
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      orders.clear();
      is_filling = false;
    }
    changed.notify_all();
  }

  /// Waits until a batch is ordered and a slot is free; false: the queue is going away.
  bool is_ordered() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] {
      return is_stopping || (!orders.empty() && produced - consumed < static_cast<std::int64_t>(slots.size()));
    });
    return !is_stopping;
  }

  /// The next of the ordered batches.
  void take_order(Batch& batch) {
    const std::lock_guard lock(mutex);
    Order& order = orders.front();
    batch.position = batch_at(order.samples.begin, dataset->size(), options.batch);
    batch.position.rows = std::min(batch.position.rows, order.samples.size());
    batch.rows = (order.rows_of ? order.rows_of : options.rows_of)(batch.position.rows);
    order.samples.begin += batch.position.rows;
    if (order.samples.empty()) orders.pop_front();
    is_filling = true;
  }

  void fill(Slot& slot) {
    Batch& batch = slot.batch;
    batch.inputs = options.reads_inputs ? slot.inputs.data() : nullptr;
    batch.targets = options.reads_targets ? slot.targets.data() : nullptr;
    choose(batch);
    if (!options.reads_inputs && !options.reads_targets) return;
    dataset->read(batch.indices, options.reads_inputs ? stored.data() : nullptr,
                  options.reads_targets ? slot.targets.data() : nullptr);
    if (!options.reads_inputs) return;
    for (std::size_t i = 0; i < batch.indices.size(); ++i)
      transform.apply(stored.data() + i * stored_bytes, batch.position.epoch, batch.indices[i],
                      slot.inputs.data() + i * static_cast<std::size_t>(elements));
    const DType dtype = dataset->input_dtype();
    if (options.check_finite && (dtype == DType::f32 || dtype == DType::f64)) check_finite(batch);
  }

  void choose(Batch& batch) const {
    ShuffleOptions shuffle = options.shuffle;
    if (!options.is_training) shuffle.kind = ShuffleOptions::Kind::none;
    const Permutation permutation(options.seed, batch.position.epoch, dataset->size(), shuffle);
    batch.indices.clear();
    for (std::int64_t row = batch.rows.begin; row < batch.rows.end; ++row)
      batch.indices.push_back(permutation(batch.position.first + row));
  }

  void check_finite(const Batch& batch) const {
    const float* values = batch.inputs;
    const std::size_t count = batch.indices.size() * static_cast<std::size_t>(elements);
    float zero = 0;  // NaN and Inf times zero are NaN: one vector loop tells whether to look closer
#pragma omp simd reduction(+ : zero)
    for (std::size_t i = 0; i < count; ++i) zero += values[i] * 0.0f;
    if (zero == 0.0f) return;
    for (std::size_t i = 0; i < count; ++i)
      if (!std::isfinite(values[i]))
        fail(ExitCode::data,
             "{}: sample {} holds {} (as float32) at element {}; expected finite numbers (data.check_finite: false "
             "turns "
             "this check off)",
             dataset->describe(), batch.indices[i / static_cast<std::size_t>(elements)], values[i],
             i % static_cast<std::size_t>(elements));
  }

  const Batch* next() {
    std::unique_lock lock(mutex);
    if (has_handed_out) ++consumed;
    has_handed_out = false;
    changed.notify_all();
    const auto is_at_end = [this] { return orders.empty() && !is_filling; };
    if (produced == consumed && !is_at_end()) {
      const Stopwatch watch;
      changed.wait(lock, [&] { return produced > consumed || is_at_end(); });
      stall_s += watch.elapsed_s();
    }
    if (produced > consumed) {
      has_handed_out = true;
      return &slots[static_cast<std::size_t>(consumed) % slots.size()].batch;
    }
    if (failure) std::rethrow_exception(failure);
    return nullptr;
  }

  std::unique_ptr<Dataset> dataset;
  QueueOptions options;
  Transform transform;
  std::vector<Slot> slots;
  std::vector<std::byte> stored;
  std::int64_t elements = 0;
  std::size_t stored_bytes = 0, target_bytes = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t produced = 0, consumed = 0;  // batches so far
  std::deque<Order> orders;
  bool has_handed_out = false, is_filling = false, is_stopping = false;
  std::exception_ptr failure;
  double stall_s = 0;
  std::thread thread;
};

BatchQueue::BatchQueue(std::unique_ptr<Dataset> dataset, QueueOptions options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(options))) {}
BatchQueue::~BatchQueue() = default;
void BatchQueue::order(Range samples, RowsOf rows_of) { impl_->order(samples, std::move(rows_of)); }
const Batch* BatchQueue::next() { return impl_->next(); }
double BatchQueue::stall_s() const { return impl_->stall_s; }
const Dataset& BatchQueue::dataset() const { return *impl_->dataset; }

}  // namespace muster::dataset
