// Runs one op on one backend with hostile memory: every buffer starts as NaN (an op must overwrite, padding included),
// scratch is spoilt between calls, and guards around each buffer catch writes beyond it. Values go in and come out
// plain, so results of backends with different layouts can be compared.
#pragma once

#include <gtest/gtest.h>

#include <muster/base/rng.hpp>
#include <muster/device/backend.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace muster::device::test {

using Values = std::vector<float>;

/// A buffer with guards, its start `shift` elements behind a 64-byte boundary times 16.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t shift) : bytes_((bytes + 63) / 64 * 64), begin_(guard + 64 * shift) {
    memory_.resize(bytes_ + 2 * guard + 64 * shift + 64);
    std::memset(memory_.data(), 0xFF, memory_.size());  // NaN as float and as double
    begin_ += (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }
  void* data() { return memory_.data() + begin_; }
  void spoil() { std::memset(data(), 0xFF, bytes_); }
  bool is_intact() const {
    const auto is_guard = [](std::byte b) { return b == std::byte{0xFF}; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(begin_), is_guard) &&
           std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(begin_ + bytes_), memory_.end(), is_guard);
  }

 private:
  static constexpr std::size_t guard = 256;
  std::size_t bytes_, begin_;
  std::vector<std::byte> memory_;
};

/// What to run, described with plain values.
struct Case {
  std::string name;
  OpSpec spec;
  std::vector<Shape> inputs;  ///< with n
  bool is_training = true;
  int threads = 1;
  RunContext context{7, 3, 12, 0};
  float quantum = 0;       ///< > 0: inputs are rounded to multiples, so that ties happen
  double other_share = 0;  ///< statistics "of other ranks": this much of the own ones is added to them
  bool is_deterministic = true;
  std::int64_t tokens = 0;  ///< > 0: inputs are token ids below this
};

struct Result {
  Values output;
  std::vector<Values> input_grads, param_grads, state;
  std::vector<double> forward_statistics, backward_statistics, deferred;
  std::string implementation;
  std::vector<std::byte> raw_output;
};

inline Values random_values(std::int64_t count, std::uint32_t which, float quantum = 0) {
  const RandomStream stream(11, Purpose::test, which, 0);
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = stream.normal(i) + 0.1f;
    if (quantum > 0) values[i] = std::round(values[i] / quantum) * quantum;
  }
  return values;
}

/// One bound op and its memory. layouts: of the inputs, in that backend; params: fixed layouts or empty; shift: moves
/// all addresses.
class Runner {
 public:
  Runner(Backend& backend, const Case& c, const std::vector<TensorDesc>& layouts, std::vector<TensorDesc> params = {},
         std::size_t shift = 0)
      : backend_(backend), case_(c), layouts_(layouts), shift_(shift) {
    OpRequest request;
    request.spec = c.spec;
    request.inputs = layouts;
    request.fixed_params = std::move(params);
    request.is_training = c.is_training;
    request.is_deterministic = c.is_deterministic;
    request.threads = c.threads;
    op_ = backend.make(request);
    if (case_.context.global_rows == 0) case_.context.global_rows = layouts[0].shape[0];
    bind();
  }

  Op& op() { return *op_; }

  Result run() {
    const OpTraits& traits = op_->traits();
    Result result;
    for (int phase = 0; phase < traits.forward_phases; ++phase) {
      call([&] { op_->forward(phase, case_.context); });
      if (phase == 0) result.forward_statistics = totals(forward_);
    }
    result.deferred = deferred_;
    result.output = plain(op_->output(), *output_);
    const auto* raw = static_cast<const std::byte*>(output_->data());
    result.raw_output.assign(raw, raw + op_->output().bytes());
    check_padding(op_->output(), *output_, result.output);
    if (case_.is_training) run_backward(result);
    op_->end_step(case_.context);
    result.state = states_;
    result.implementation = op_->implementation();
    for (const auto& buffer : buffers_) EXPECT_TRUE(buffer->is_intact()) << case_.name << ": wrote beyond a buffer";
    return result;
  }

 private:
  void bind() {
    OpBuffers b;
    std::vector<Shape> samples;
    for (std::size_t k = 0; k < layouts_.size(); ++k) {
      const Shape& shape = layouts_[k].shape;
      samples.push_back(Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end())));
      Values values = random_values(shape.elements(), static_cast<std::uint32_t>(k), case_.quantum);
      for (float& v : values)
        if (case_.tokens > 0) v = std::fmod(std::floor(std::abs(v) * 1000.0f), static_cast<float>(case_.tokens));
      b.inputs.push_back(fill(layouts_[k], values).data());
      input_grads_.push_back(&make(layouts_[k].bytes()));
      b.input_grads.push_back(case_.is_training ? input_grads_.back()->data() : nullptr);
    }
    output_ = &make(op_->output().bytes());
    b.output = output_->data();
    if (case_.is_training) {
      output_grad_ = &fill(op_->output(), random_values(op_->output().shape.elements(), 20));
      b.output_grad = output_grad_->data();
    }
    for (std::size_t i = 0; i < op_->params().size(); ++i) {
      const TensorDesc& desc = op_->params()[i];
      b.params.push_back(static_cast<float*>(
          fill(desc, random_values(desc.shape.elements(), 30 + static_cast<std::uint32_t>(i))).data()));
      param_grads_.push_back(&make(desc.bytes()));
      if (case_.is_training) b.param_grads.push_back(static_cast<float*>(param_grads_.back()->data()));
    }
    for (const ParamShape& state : state_shapes(case_.spec, samples)) {
      states_.push_back(random_values(state.shape.elements(), 40));
      for (float& v : states_.back()) v = 0.5f + std::abs(v);
    }
    for (Values& state : states_) b.state.push_back(state.data());
    b.saved = make(op_->traits().saved_bytes).data();
    scratch_ = &make(op_->traits().scratch_bytes);
    b.scratch = scratch_->data();
    op_->bind(b);
    forward_.resize(static_cast<std::size_t>(op_->traits().forward_statistics));
    backward_.resize(static_cast<std::size_t>(op_->traits().backward_statistics));
    deferred_.resize(static_cast<std::size_t>(op_->traits().deferred_statistics));
    op_->bind_statistics(forward_, backward_, deferred_);
  }

  void run_backward(Result& result) {
    const OpTraits& traits = op_->traits();
    if (traits.passes_grad_through) {
      for (std::size_t k = 0; k < layouts_.size(); ++k)
        result.input_grads.push_back(random_values(layouts_[k].shape.elements(), 20));
      return;
    }
    for (int phase = 0; phase < traits.backward_phases; ++phase) {
      call([&] { op_->backward(phase, case_.context); });
      if (phase == 0) result.backward_statistics = totals(backward_);
    }
    check_output_grad();
    for (std::size_t k = 0; k < layouts_.size(); ++k) {
      result.input_grads.push_back(plain(layouts_[k], *input_grads_[k]));
      check_padding(layouts_[k], *input_grads_[k], result.input_grads[k]);
    }
    for (std::size_t i = 0; i < param_grads_.size(); ++i) {
      result.param_grads.push_back(plain(op_->params()[i], *param_grads_[i]));
      check_padding(op_->params()[i], *param_grads_[i], result.param_grads[i]);
    }
  }

  /// What an op does to the output's gradient must be what its traits say.
  void check_output_grad() {
    const OpTraits& traits = op_->traits();
    const Values after = plain(op_->output(), *output_grad_);
    if (!traits.may_overwrite_output_grad) {
      EXPECT_EQ(after, random_values(op_->output().shape.elements(), 20)) << case_.name << ": output gradient changed";
    }
    for (std::size_t k = 0; k < traits.leaves_grad_of_input.size(); ++k) {
      if (!traits.leaves_grad_of_input[k]) continue;
      EXPECT_EQ(after, plain(layouts_[k], *input_grads_[k]))
          << case_.name << ": gradient of input " << k << " is not left";
    }
  }

  template <class Body>
  void call(Body body) {
    scratch_->spoil();
    body();
  }

  std::vector<double> totals(std::vector<double>& share) const {
    const std::vector<double> own = share;
    for (std::size_t i = 0; i < share.size(); ++i) share[i] *= 1.0 + case_.other_share;
    return own;
  }

  Guarded& make(std::size_t bytes) {
    buffers_.push_back(std::make_unique<Guarded>(bytes, shift_));
    return *buffers_.back();
  }
  Guarded& fill(const TensorDesc& desc, const Values& values) {
    Guarded& buffer = make(desc.bytes());
    backend_.from_plain(desc, values.data(), buffer.data());
    return buffer;
  }
  Values plain(const TensorDesc& desc, Guarded& buffer) const {
    Values values(static_cast<std::size_t>(desc.shape.elements()));
    backend_.to_plain(desc, buffer.data(), values.data());
    return values;
  }
  /// Padding must be zero: the bytes equal those made from the plain values.
  void check_padding(const TensorDesc& desc, Guarded& buffer, const Values& values) const {
    if (desc.bytes() == static_cast<std::size_t>(desc.shape.elements()) * sizeof(float)) return;
    Guarded other(desc.bytes(), 0);
    backend_.from_plain(desc, values.data(), other.data());
    EXPECT_EQ(std::memcmp(other.data(), buffer.data(), desc.bytes()), 0) << case_.name << ": padding is not zero";
  }

  Backend& backend_;
  Case case_;
  std::vector<TensorDesc> layouts_;
  std::size_t shift_;
  std::unique_ptr<Op> op_;
  std::vector<std::unique_ptr<Guarded>> buffers_;
  Guarded* output_ = nullptr;
  Guarded* output_grad_ = nullptr;
  Guarded* scratch_ = nullptr;
  std::vector<Guarded*> input_grads_, param_grads_;
  std::vector<Values> states_;
  std::vector<double> forward_, backward_, deferred_;
};

inline std::unique_ptr<Backend> backend_named(const std::string& kind, int threads = 1) {
  DeviceOptions options;
  options.kind = kind;
  options.threads = threads;
  return make_backend(options);
}

/// Largest difference relative to the largest expected magnitude (at least 1e-3); NaN counts as infinite.
template <class T>
double relative_difference(const std::vector<T>& found, const std::vector<T>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 1e-3, difference = 0;
  for (T v : expected) largest = std::max(largest, std::abs(static_cast<double>(v)));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double d = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (!(d <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, d);
  }
  return difference / largest;
}

inline void expect_equal(const Result& found, const Result& expected, double tolerance, const std::string& what) {
  const auto check = [&](const auto& a, const auto& b, const std::string& part) {
    EXPECT_LT(relative_difference(a, b), tolerance) << what << " [" << found.implementation << "]: " << part;
  };
  check(found.output, expected.output, "output");
  ASSERT_EQ(found.input_grads.size(), expected.input_grads.size()) << what;
  for (std::size_t k = 0; k < expected.input_grads.size(); ++k)
    check(found.input_grads[k], expected.input_grads[k], "gradient of input " + std::to_string(k));
  ASSERT_EQ(found.param_grads.size(), expected.param_grads.size()) << what;
  for (std::size_t k = 0; k < expected.param_grads.size(); ++k)
    check(found.param_grads[k], expected.param_grads[k], "gradient of parameter " + std::to_string(k));
  check(found.forward_statistics, expected.forward_statistics, "forward statistics");
  check(found.backward_statistics, expected.backward_statistics, "backward statistics");
  check(found.deferred, expected.deferred, "deferred statistics");
  for (std::size_t k = 0; k < expected.state.size(); ++k)
    check(found.state[k], expected.state[k], "state " + std::to_string(k));
}

}  // namespace muster::device::test
