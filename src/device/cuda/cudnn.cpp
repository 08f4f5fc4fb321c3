#include "device/cuda/cudnn.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::device::cuda {

void check_cudnn(cudnnStatus_t status, const char* expression, std::source_location where) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> details{};
  cudnnGetLastErrorString(details.data(), details.size());
  fail_library(ExitCode::device, "cuDNN", expression, status,
               fmt::format("{}; {}", cudnnGetErrorString(status), details.data()), where);
}
#define CUDNN_CHECK(expression) check_cudnn((expression), #expression)

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &made));
  value_.reset(made);
}

void Descriptor::put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                     const void* values) {
  CUDNN_CHECK(cudnnBackendSetAttribute(raw(), name, type, count, values));
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  return set(name, std::vector<const Descriptor*>{&value});
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<const Descriptor*>& values) {
  std::vector<cudnnBackendDescriptor_t> raws;
  for (const Descriptor* value : values) raws.push_back(value->raw());
  put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raws.size()), raws.data());
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  put(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<void*>& values) {
  put(name, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(values.size()), values.data());
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  put(name, CUDNN_TYPE_INT64, 1, &value);
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, float value) {
  put(name, CUDNN_TYPE_FLOAT, 1, &value);
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  put(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, void* value) {
  put(name, CUDNN_TYPE_VOID_PTR, 1, &value);
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  put(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value) {
  put(name, CUDNN_TYPE_CONVOLUTION_MODE, 1, &value);
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value) {
  put(name, CUDNN_TYPE_POINTWISE_MODE, 1, &value);
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value) {
  put(name, CUDNN_TYPE_HEUR_MODE, 1, &value);
  return *this;
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
  put(name, CUDNN_TYPE_HANDLE, 1, &value);
  return *this;
}

Descriptor& Descriptor::finalize() {
  CUDNN_CHECK(cudnnBackendFinalize(raw()));
  return *this;
}

bool Descriptor::try_finalize() {
  const cudnnStatus_t status = cudnnBackendFinalize(raw());
  // (groups of statuses: thousands)
  if (status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000) return false;
  check_cudnn(status, "cudnnBackendFinalize");
  return true;
}

std::int64_t Descriptor::get_integer(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(raw(), name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

std::vector<Descriptor> Descriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type) const {
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(raw(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<Descriptor> made;
  std::vector<cudnnBackendDescriptor_t> raws;
  for (std::int64_t i = 0; i < count; ++i) raws.push_back(made.emplace_back(type).raw());
  if (count > 0)
    CUDNN_CHECK(cudnnBackendGetAttribute(raw(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raws.data()));
  while (static_cast<std::int64_t>(made.size()) > count) made.pop_back();
  return made;
}

std::vector<cudnnBackendNumericalNote_t> Descriptor::get_notes() const {
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  std::int64_t count = 0;
  CUDNN_CHECK(cudnnBackendGetAttribute(raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()));
  notes.resize(static_cast<std::size_t>(count));
  return notes;
}

Descriptor cudnn_tensor(std::int64_t id, const std::vector<std::int64_t>& dims, bool is_virtual) {
  constexpr std::int64_t alignment_bytes = 16;
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment_bytes)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .finalize();
  return tensor;
}

Descriptor& Graph::add(Descriptor descriptor) {
  return *all_.emplace_back(std::make_unique<Descriptor>(std::move(descriptor)));
}

Descriptor& Graph::add_operation(Descriptor descriptor) {
  Descriptor& added = add(std::move(descriptor));
  operations_.push_back(&added);
  return added;
}

namespace {

bool is_strict(const std::vector<cudnnBackendNumericalNote_t>& notes) {
  return std::ranges::none_of(notes, [](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION || note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  });
}

/// Since 9.8 graphs and plans are of the device that is current, whatever the handle.
bool wants_handle() { return cudnnGetVersion() < 90800; }

}  // namespace

bool CudnnPlan::choose(cudnnBackendHeurMode_t mode, std::size_t most_workspace_bytes, cudnnHandle_t handle) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *operations_).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (!heuristics.try_finalize()) return false;
  configs_ = heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  for (const Descriptor& config : configs_) {
    const auto engine = config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (engine.empty() || !is_strict(engine.front().get_notes())) continue;
    auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (wants_handle()) plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (!plan->try_finalize()) continue;
    workspace_bytes_ = static_cast<std::size_t>(plan->get_integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    if (workspace_bytes_ > most_workspace_bytes) continue;
    plan_ = std::move(plan);
    return true;
  }
  return false;
}

std::shared_ptr<CudnnPlan> CudnnPlan::find(Graph graph, std::size_t most_workspace_bytes, cudnnHandle_t handle) {
  std::shared_ptr<CudnnPlan> plan(new CudnnPlan);
  plan->graph_ = std::move(graph);
  plan->operations_ = std::make_unique<Descriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (wants_handle()) plan->operations_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  plan->operations_->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, plan->graph_.operations());
  if (!plan->operations_->try_finalize()) return nullptr;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    if (plan->choose(mode, most_workspace_bytes, handle)) return plan;
  return nullptr;
}

CudnnRun::CudnnRun(std::shared_ptr<CudnnPlan> plan, const std::vector<std::int64_t>& ids,
                   const std::vector<void*>& pointers, void* workspace)
    : plan_(std::move(plan)), pack_(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
  pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize();
}

void CudnnRun::run(cudnnHandle_t handle) {
  CUDNN_CHECK(cudnnBackendExecute(handle, plan_->descriptor().raw(), pack_.raw()));
}

}  // namespace muster::device::cuda
