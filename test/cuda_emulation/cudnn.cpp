// The double of cuDNN. Descriptors, checks, heuristics, plans and sizes of workspaces are those of the real library,
// which plans for a card that is described to it; only execution is replaced (cudnn_graph.cpp).
//   EMULATION_DEVICE=h200|a100|b200   the card
//   EMULATION_CUDNN=none|unfused      no engine at all; none for more than one operation
#include "cuda_emulation/cudnn_graph.hpp"
#include "cuda_emulation/devices.hpp"
#include "cuda_emulation/doubles.hpp"

#include <cudnn.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using emulation::shadow;
using emulation::stop;

struct cudnnContext : emulation::Counted {
  cudaStream_t stream = nullptr;
};

namespace {

/// The library itself, opened so that none of its names meet those of this double.
class Real {
 public:
  static Real& get() {
    static Real real;
    return real;
  }
  template <class Function>
  Function* find(const char* name, Function*) const {
    auto* found = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (found == nullptr) stop(fmt::format("libcudnn.so.9 has no {}", name));
    return found;
  }
  /// The description of the card that EMULATION_DEVICE names now.
  cudnnBackendDescriptor_t device();

 private:
  Real();
  void* library_;
  std::map<std::string, cudnnBackendDescriptor_t> devices_;
};
#define REAL(name) Real::get().find(#name, &name)

Real::Real() : library_(::dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) {
  if (library_ == nullptr) stop(fmt::format("the double of cuDNN needs the real library: {}", ::dlerror()));
}

cudnnBackendDescriptor_t Real::device() {
  const char* named = std::getenv("EMULATION_DEVICE");
  const std::string card = named == nullptr ? "h200" : named;
  cudnnBackendDescriptor_t& device = devices_[card];
  if (device != nullptr) return device;
  const std::string text = emulation::device_description(card);
  const auto size = static_cast<std::int64_t>(text.size());
  if (REAL(cudnnBackendCreateDescriptor)(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device) != CUDNN_STATUS_SUCCESS ||
      REAL(cudnnBackendSetAttribute)(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size,
                                     text.data()) != CUDNN_STATUS_SUCCESS ||
      REAL(cudnnBackendFinalize)(device) != CUDNN_STATUS_SUCCESS)
    stop("cuDNN does not take the description of the card");
  return device;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_HANDLE:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_FRACTION:
      return 16;
    default:
      return 4;
  }
}

/// A descriptor of the product: the real one, and what was set in it.
struct Wrapped : emulation::Counted {
  cudnnBackendDescriptorType_t type{};
  cudnnBackendDescriptor_t real = nullptr;
  bool is_final = false;
  const Wrapped* graph = nullptr;  ///< of an engine's config
  std::map<int, std::vector<char>> attributes;
  std::map<int, bool> are_descriptors;

  bool has(cudnnBackendAttributeName_t name) const { return attributes.contains(name); }
  template <class Value>
  std::vector<Value> list(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) stop(fmt::format("cuDNN: attribute {} was not set", int{name}));
    std::vector<Value> values(found->second.size() / sizeof(Value));
    std::memcpy(values.data(), found->second.data(), values.size() * sizeof(Value));
    return values;
  }
  template <class Value>
  Value get(cudnnBackendAttributeName_t name) const {
    return list<Value>(name).at(0);
  }
  const Wrapped& part(cudnnBackendAttributeName_t name) const { return *get<const Wrapped*>(name); }
};

Wrapped* wrapped(cudnnBackendDescriptor_t descriptor) { return reinterpret_cast<Wrapped*>(descriptor); }

emulation::GraphTensor tensor_of(const Wrapped& tensor) {
  if (tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) != CUDNN_DATA_FLOAT)
    stop("the double of cuDNN executes float32 only");
  return {tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          tensor.list<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), tensor.list<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES),
          tensor.get<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0};
}

using Kind = emulation::GraphStep::Kind;

/// The names that one kind of convolution has for its parts.
struct Names {
  Kind kind;
  cudnnBackendAttributeName_t convolution, x, weight, y, alpha, beta;
};
const std::map<cudnnBackendDescriptorType_t, Names> convolutions{
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     {Kind::convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     {Kind::input_gradient, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA}},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     {Kind::weight_gradient, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}}};

emulation::GraphStep convolution_step(const Wrapped& operation, const Names& names) {
  if (operation.get<float>(names.alpha) != 1.0f || operation.get<float>(names.beta) != 0.0f)
    stop("the double of cuDNN knows alpha 1 and beta 0 only");
  const Wrapped& how = operation.part(names.convolution);
  return {names.kind,
          tensor_of(operation.part(names.x)),
          tensor_of(operation.part(names.weight)),
          tensor_of(operation.part(names.y)),
          how.list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
          how.list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS),
          how.list<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)};
}

emulation::GraphStep pointwise_step(const Wrapped& operation) {
  const auto mode =
      operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  emulation::GraphStep step;
  if (mode == CUDNN_POINTWISE_ADD) step.weight = tensor_of(operation.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  else if (mode == CUDNN_POINTWISE_RELU_FWD) step.kind = Kind::relu;
  else stop(fmt::format("the double of cuDNN does not know pointwise mode {}", int{mode}));
  step.x = tensor_of(operation.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  step.y = tensor_of(operation.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  return step;
}

std::vector<emulation::GraphStep> steps_of(const Wrapped& graph) {
  std::vector<emulation::GraphStep> steps;
  for (const Wrapped* operation : graph.list<const Wrapped*>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    if (const auto found = convolutions.find(operation->type); found != convolutions.end())
      steps.push_back(convolution_step(*operation, found->second));
    else if (operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      steps.push_back(pointwise_step(*operation));
    else stop(fmt::format("the double of cuDNN does not execute operation {}", int{operation->type}));
  }
  return steps;
}

/// Where the bytes of each tensor lie, checked: given, aligned as declared, inside one allocation.
std::map<std::int64_t, float*> memory_of(const std::vector<emulation::GraphStep>& steps, const Wrapped& pack) {
  constexpr std::uintptr_t alignment = 16;
  const auto ids = pack.list<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.list<float*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<std::int64_t, float*> given, memory;
  for (std::size_t i = 0; i < ids.size(); ++i) given[ids[i]] = pointers.at(i);
  for (const auto& step : steps)
    for (const auto* tensor : {&step.x, &step.weight, &step.y}) {
      if (tensor->dims.empty() || tensor->is_virtual) continue;
      const auto found = given.find(tensor->id);
      if (found == given.end()) stop(fmt::format("cudnnBackendExecute: tensor {} has no memory", tensor->id));
      if (reinterpret_cast<std::uintptr_t>(found->second) % alignment != 0)
        stop(fmt::format("cudnnBackendExecute: tensor {} is not aligned to {} bytes", tensor->id, alignment));
      memory[tensor->id] =
          shadow(found->second, tensor->bytes(), fmt::format("cudnnBackendExecute, tensor {}", tensor->id));
    }
  return memory;
}

/// Whether EMULATION_CUDNN forbids engines for this graph.
bool is_refused(const Wrapped& heuristics) {
  const char* text = std::getenv("EMULATION_CUDNN");
  const std::string mode = text == nullptr ? "" : text;
  const auto operations =
      heuristics.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).list<const Wrapped*>(CUDNN_ATTR_OPERATIONGRAPH_OPS).size();
  return mode == "none" || (mode == "unfused" && operations > 1);
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return REAL(cudnnGetVersion)(); }
const char* cudnnGetErrorString(cudnnStatus_t status) { return REAL(cudnnGetErrorString)(status); }
void cudnnGetLastErrorString(char* message, size_t size) { REAL(cudnnGetLastErrorString)(message, size); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  auto* made = new Wrapped;
  made->type = type;
  *descriptor = reinterpret_cast<cudnnBackendDescriptor_t>(made);
  return REAL(cudnnBackendCreateDescriptor)(type, &made->real);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = REAL(cudnnBackendDestroyDescriptor)(wrapped(descriptor)->real);
  delete wrapped(descriptor);
  return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  Wrapped& to = *wrapped(descriptor);
  if (to.is_final) stop(fmt::format("cuDNN: attribute {} is set after the descriptor was finalised", int{name}));
  const char* bytes = static_cast<const char*>(values);
  to.attributes[name].assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return REAL(cudnnBackendSetAttribute)(to.real, name, type, count, values);
  std::vector<cudnnBackendDescriptor_t> reals;
  for (const Wrapped* part : to.list<const Wrapped*>(name)) {
    if (!part->is_final) stop(fmt::format("cuDNN: attribute {} is a descriptor that is not finalised", int{name}));
    reals.push_back(part->real);
  }
  return REAL(cudnnBackendSetAttribute)(to.real, name, type, count, reals.data());
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values) {
  const Wrapped& from = *wrapped(descriptor);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && is_refused(from)) {
    *count = 0;
    return CUDNN_STATUS_SUCCESS;
  }
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR || values == nullptr)
    return REAL(cudnnBackendGetAttribute)(from.real, name, type, wanted, count, values);
  auto** parts = static_cast<Wrapped**>(values);
  std::vector<cudnnBackendDescriptor_t> reals;
  for (int64_t i = 0; i < wanted; ++i) reals.push_back(parts[i]->real);
  const cudnnStatus_t status = REAL(cudnnBackendGetAttribute)(from.real, name, type, wanted, count, reals.data());
  for (int64_t i = 0; i < wanted; ++i) {
    parts[i]->is_final = true;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) parts[i]->graph = &from.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  }
  return status;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Wrapped& it = *wrapped(descriptor);
  if (it.is_final) stop("cudnnBackendFinalize: the descriptor is final already");
  it.is_final = true;
  if (it.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;  // its pointers are only ours
  auto device = Real::get().device();
  const bool plans = it.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  if (plans || it.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    const cudnnStatus_t status = REAL(cudnnBackendSetAttribute)(
        it.real, plans ? CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP : CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  const cudnnStatus_t status = REAL(cudnnBackendFinalize)(it.real);
  it.is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  std::int64_t workspace_bytes = 0, count = 0;
  const cudnnStatus_t status = REAL(cudnnBackendGetAttribute)(
      wrapped(plan)->real, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace_bytes);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto steps = steps_of(*wrapped(plan)->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).graph);
  const auto memory = memory_of(steps, *wrapped(pack));
  void* workspace = nullptr;
  const auto bytes = static_cast<std::size_t>(workspace_bytes);
  if (bytes > 0)
    workspace =
        shadow(wrapped(pack)->get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE), bytes, "cudnnBackendExecute, workspace");
  emulation::enqueue(handle->stream, "cudnnBackendExecute", [=] {
    if (bytes > 0) std::memset(workspace, 0xEE, bytes);
    emulation::run_steps(steps, memory);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
