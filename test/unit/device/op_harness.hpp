// Runs one op with values that the test chooses, on any backend, step by step: what the hand-worked, finite-difference
// and micro-batch tests share. (cpu_runner.hpp draws its own values and compares whole runs.) Memory is hostile, as
// there: NaN wherever the op must write, guards around each buffer.
//
// A new op needs no line here: give its spec and input shapes to OpRun, set values, call forward and backward. Add one
// `Hand` row to hand_values_test.cpp, one `Slope` row to op_gradient_test.cpp and its cases to
// cpu_against_ref_test.cpp.
#pragma once

#include "cpu_runner.hpp"

#include <muster/base/error.hpp>

namespace muster::device::test {

/// Calls body(backend) for every backend that can run here; the name is in each failure's trace.
template <class Body>
void on_every_backend(Body body) {
  int count = 0;
  for (const BackendEntry& entry : registered_backends()) {
    if (!entry.probe().empty()) continue;
    SCOPED_TRACE("backend " + entry.name);
    body(*backend_named(entry.name));
    ++count;
  }
  ASSERT_GE(count, 2) << "ref and cpu are part of every build";
}

/// Buffers that may be one: output over input 0, input gradient 0 over output gradient.
enum class Sharing { none, output_over_input, grad_over_grad };

class OpRun {
 public:
  OpRun(Backend& backend, OpSpec spec, const std::vector<Shape>& inputs, bool is_training = true,
        Sharing sharing = Sharing::none)
      : backend_(backend), is_training_(is_training) {
    OpRequest request;
    request.spec = std::move(spec);
    request.is_training = is_training;
    request.is_deterministic = true;
    std::vector<Shape> samples;
    for (const Shape& shape : inputs) {
      request.inputs.push_back({shape, DType::f32, nullptr});
      samples.push_back(Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end())));
    }
    op_ = backend.make(request);
    descs_ = request.inputs;
    context = {7, 3, 0, inputs[0][0]};
    allocate(state_shapes(request.spec, samples), sharing);
  }

  Op& op() { return *op_; }
  std::int64_t rows() const { return descs_[0].shape[0]; }

  void set_input(const Values& values, std::size_t k = 0) { put(descs_[k], values, *inputs_[k]); }
  void set_param(std::size_t i, const Values& values) { put(op_->params()[i], values, *params_[i]); }
  void set_output_grad(const Values& values) { put(op_->output(), values, *output_grad_); }
  void set_state(std::size_t i, const Values& values) { std::copy(values.begin(), values.end(), bound_.state[i]); }

  void forward_phase(int phase) {
    scratch_->spoil();
    op_->forward(phase, context);
  }
  void backward_phase(int phase) {
    scratch_->spoil();
    op_->backward(phase, context);
  }
  /// All phases of one micro-batch that is the whole global batch.
  Values forward() {
    for (int phase = 0; phase < op_->traits().forward_phases; ++phase) forward_phase(phase);
    return output();
  }
  void backward() {
    for (int phase = 0; phase < op_->traits().backward_phases; ++phase) backward_phase(phase);
  }

  Values output() const { return get(op_->output(), *output_); }
  /// Where gradients pass through (add), the output's.
  Values input_grad(std::size_t k = 0) const {
    if (op_->traits().passes_grad_through) return get(op_->output(), *output_grad_);
    return get(descs_[k], *input_grads_[k]);
  }
  Values param_grad(std::size_t i) const { return get(op_->params()[i], *param_grads_[i]); }
  Values state(std::size_t i) const { return states_[i]; }
  std::vector<Shape> input_shapes() const { return shapes(descs_); }
  std::vector<Shape> param_shapes() const { return shapes(op_->params()); }
  void expect_intact() const {
    for (const auto& buffer : buffers_) EXPECT_TRUE(buffer->is_intact()) << "wrote beyond a buffer";
  }

  RunContext context;
  std::vector<double> forward_statistics, backward_statistics, deferred_statistics;

 private:
  void allocate(const std::vector<ParamShape>& states, Sharing sharing) {
    output_ = &make(op_->output().bytes());
    output_grad_ = &make(op_->output().bytes());
    for (std::size_t k = 0; k < descs_.size(); ++k) {
      const bool is_output = k == 0 && sharing == Sharing::output_over_input;
      const bool is_grad = k == 0 && sharing == Sharing::grad_over_grad;
      inputs_.push_back(is_output ? output_ : &make(descs_[k].bytes()));
      input_grads_.push_back(is_grad ? output_grad_ : &make(descs_[k].bytes()));
      bound_.inputs.push_back(inputs_.back()->data());
      bound_.input_grads.push_back(is_training_ ? input_grads_.back()->data() : nullptr);
    }
    bound_.output = output_->data();
    if (is_training_) bound_.output_grad = output_grad_->data();
    for (const TensorDesc& desc : op_->params()) {
      params_.push_back(&make(desc.bytes()));
      param_grads_.push_back(&make(desc.bytes()));
      bound_.params.push_back(static_cast<float*>(params_.back()->data()));
      bound_.param_grads.push_back(static_cast<float*>(param_grads_.back()->data()));
    }
    for (const ParamShape& state : states)
      states_.push_back(Values(static_cast<std::size_t>(state.shape.elements()), 0.0f));
    for (Values& state : states_) bound_.state.push_back(state.data());
    bound_.saved = make(op_->traits().saved_bytes).data();
    scratch_ = &make(op_->traits().scratch_bytes);
    bound_.scratch = scratch_->data();
    op_->bind(bound_);
    // NaN: an op that adds to what it finds instead of writing it is noticed.
    forward_statistics.assign(static_cast<std::size_t>(op_->traits().forward_statistics), NAN);
    backward_statistics.assign(static_cast<std::size_t>(op_->traits().backward_statistics), NAN);
    deferred_statistics.assign(static_cast<std::size_t>(op_->traits().deferred_statistics), NAN);
    op_->bind_statistics(forward_statistics, backward_statistics, deferred_statistics);
  }

  Guarded& make(std::size_t bytes) {
    buffers_.push_back(std::make_unique<Guarded>(bytes, 0));
    return *buffers_.back();
  }
  void put(const TensorDesc& desc, const Values& values, Guarded& buffer) const {
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), desc.shape.elements());
    backend_.from_plain(desc, values.data(), buffer.data());
  }
  Values get(const TensorDesc& desc, Guarded& buffer) const {
    Values values(static_cast<std::size_t>(desc.shape.elements()));
    backend_.to_plain(desc, buffer.data(), values.data());
    return values;
  }
  static std::vector<Shape> shapes(const std::vector<TensorDesc>& descs) {
    std::vector<Shape> result;
    for (const TensorDesc& desc : descs) result.push_back(desc.shape);
    return result;
  }

  Backend& backend_;
  bool is_training_;
  std::unique_ptr<Op> op_;
  std::vector<TensorDesc> descs_;
  std::vector<std::unique_ptr<Guarded>> buffers_;
  Guarded* output_ = nullptr;
  Guarded* output_grad_ = nullptr;
  Guarded* scratch_ = nullptr;
  std::vector<Guarded*> inputs_, input_grads_, params_, param_grads_;
  std::vector<Values> states_;
  OpBuffers bound_;
};

inline void expect_near(const Values& found, const Values& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance) << what << ", element " << i;
}

}  // namespace muster::device::test
