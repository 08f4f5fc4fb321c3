// The `cuda` backend and the plugin's only exported name. The plugin is opened by src/device/plugin.cpp; everything it
// uses of muster itself it finds in the executable.
#include "device/cuda/cuda_op.hpp"
#include "device/cuda/update.hpp"

#include <muster/base/text.hpp>
#include <muster/device/backend.hpp>
#include <muster/device/plugin.hpp>

#include <cstdlib>
#include <utility>

namespace muster::device::cuda {
namespace {

/// Ranks of a node take its GPUs in turn; the launcher says which rank of the node this is.
int device_of_this_rank(int devices) {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "PMIX_LOCAL_RANK", "FLUX_TASK_LOCAL_ID"})
    if (const char* text = std::getenv(name)) return std::atoi(text) % devices;
  return 0;
}

class CudaBuffer : public Buffer {
 public:
  CudaBuffer(Context& context, std::size_t bytes) : bytes_(bytes), memory_(allocate_device(bytes)) {
    if (bytes > 0) CUDA_CHECK(cudaMemsetAsync(memory_.get(), 0, bytes, context.stream()));
  }
  void* data() override { return memory_.get(); }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_;
  DeviceMemory memory_;
};

struct Make {
  Context& context;
  const OpRequest& request;
  std::unique_ptr<Op> operator()(const DenseSpec& s) const { return make_dense(context, request, s); }
  std::unique_ptr<Op> operator()(const LayerNormSpec& s) const { return make_layer_norm(context, request, s); }
  std::unique_ptr<Op> operator()(const ActivationSpec& s) const { return make_activation(context, request, s); }
  std::unique_ptr<Op> operator()(const DropoutSpec& s) const { return make_dropout(context, request, s); }
  std::unique_ptr<Op> operator()(const AddSpec& s) const { return make_add(context, request, s); }
  std::unique_ptr<Op> operator()(const ReshapeSpec& s) const { return make_reshape(context, request, s); }
  std::unique_ptr<Op> operator()(const Conv2dSpec& s) const { return make_conv2d(context, request, s); }
  std::unique_ptr<Op> operator()(const BatchNormSpec& s) const { return make_batch_norm(context, request, s); }
  std::unique_ptr<Op> operator()(const ConcatSpec& s) const { return make_concat(context, request, s); }
  std::unique_ptr<Op> operator()(const Pool2dSpec& s) const { return make_pool2d(context, request, s); }
  std::unique_ptr<Op> operator()(const AttentionSpec& s) const { return make_attention(context, request, s); }
  std::unique_ptr<Op> operator()(const EmbeddingSpec& s) const { return make_embedding(context, request, s); }
  std::unique_ptr<Op> operator()(const PositionalEmbeddingSpec& s) const {
    return make_positional_embedding(context, request, s);
  }
  std::unique_ptr<Op> operator()(const RmsNormSpec& s) const { return make_rms_norm(context, request, s); }
  std::unique_ptr<Op> operator()(const RotarySpec& s) const { return make_rotary(context, request, s); }
  std::unique_ptr<Op> operator()(const SwigluSpec& s) const { return make_swiglu(context, request, s); }
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(const DeviceOptions&) {
    int devices = 0;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    const int device = device_of_this_rank(devices);
    CUDA_CHECK(cudaSetDevice(device));
    CUDA_CHECK(cudaGetDeviceProperties(&properties_, device));
    context_ = std::make_unique<Context>();
  }
  ~CudaBackend() override { cudaStreamSynchronize(context_->stream()); }

  std::string name() const override { return "cuda"; }
  std::string describe() const override {
    int runtime = 0;
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    const auto cudnn = cudnnGetVersion();
    return fmt::format("cuda ({}, {}, CUDA {}.{}, cuBLASLt {}, cuDNN {}.{}.{})", properties_.name,
                       human_bytes(properties_.totalGlobalMem), runtime / 1000, runtime / 10 % 100,
                       cublasLtGetVersion(), cudnn / 10000, cudnn / 100 % 100, cudnn % 100);
  }

  std::string why_unsupported(const OpRequest& request) const override {
    for (const TensorDesc& input : request.inputs)
      if (!input.is_plain() || input.dtype != DType::f32) return "cuda works on plain float32 tensors only";
    return "";
  }
  std::unique_ptr<Op> make(const OpRequest& request) override {
    if (const std::string reason = why_unsupported(request); !reason.empty()) fail(ExitCode::usage, "{}", reason);
    return std::visit(Make{*context_, request}, request.spec);
  }
  std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions, int) override {
    return cuda::make_loss(*context_, spec, predictions);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override {
    return std::make_unique<CudaBuffer>(*context_, bytes);
  }
  void accumulate(void* destination, const void* source, const TensorDesc& desc) override {
    CUDA_CHECK(add_into(static_cast<float*>(destination), static_cast<const float*>(source), desc.padded_elements(),
                        context_->stream()));
  }
  void to_plain(const TensorDesc& desc, const void* source, float* plain) override {
    copy_out(plain, source, desc.bytes());
  }
  void from_plain(const TensorDesc& desc, const float* plain, void* destination) override {
    copy_in(destination, plain, desc.bytes());
  }

  bool has_host_memory() const override { return false; }
  void copy_in(void* destination, const void* host, std::size_t bytes) override {
    context_->copy_in(destination, host, bytes);
  }
  void copy_out(void* host, const void* source, std::size_t bytes) override { context_->copy_out(host, source, bytes); }
  void copy(void* destination, const void* source, std::size_t bytes) override {
    CUDA_CHECK(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, context_->stream()));
  }
  void fill_zero(void* destination, std::size_t bytes) override {
    CUDA_CHECK(cudaMemsetAsync(destination, 0, bytes, context_->stream()));
  }
  void synchronize() override { context_->synchronize(); }
  std::string why_unsupported(const UpdateRule& rule) const override { return why_no_update(rule); }
  void update(const UpdateRule& rule, const UpdateArenas& arenas) override { cuda::update(*context_, rule, arenas); }

 private:
  cudaDeviceProp properties_{};
  std::unique_ptr<Context> context_;
};

std::string probe() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return fmt::format("no usable GPU ({})", cudaGetErrorString(status));
  return devices > 0 ? "" : "no GPU is visible";
}

std::unique_ptr<Backend> make(const DeviceOptions& options) { return std::make_unique<CudaBackend>(options); }

}  // namespace
}  // namespace muster::device::cuda

/// What src/device/plugin.cpp looks for.
extern "C" __attribute__((visibility("default"))) void muster_backend_plugin(muster::device::PluginTable* table) {
  *table = {muster::device::plugin_version, muster::device::cuda::probe, muster::device::cuda::make};
}
