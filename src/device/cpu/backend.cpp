// The `cpu` backend: oneDNN for convolutions, inner products and pooling, own vector loops for the rest.
#include "device/cpu/cpu_op.hpp"
#include "device/host_buffer.hpp"

#include <muster/base/check.hpp>
#include <muster/device/backend.hpp>

#include <omp.h>

namespace muster::device::cpu {
namespace {

struct Make {
  const OpRequest& request;
  bool is_tuned;
  std::unique_ptr<Op> operator()(const DenseSpec& s) const { return make_dense(request, s); }
  std::unique_ptr<Op> operator()(const Conv2dSpec& s) const { return make_conv2d(request, s, is_tuned); }
  std::unique_ptr<Op> operator()(const Pool2dSpec& s) const { return make_pool2d(request, s); }
  std::unique_ptr<Op> operator()(const BatchNormSpec& s) const { return make_batch_norm(request, s); }
  std::unique_ptr<Op> operator()(const LayerNormSpec& s) const { return make_layer_norm(request, s); }
  std::unique_ptr<Op> operator()(const ActivationSpec& s) const { return make_activation(request, s); }
  std::unique_ptr<Op> operator()(const DropoutSpec& s) const { return make_dropout(request, s); }
  std::unique_ptr<Op> operator()(const AddSpec& s) const { return make_add(request, s); }
  std::unique_ptr<Op> operator()(const ConcatSpec& s) const { return make_concat(request, s); }
  std::unique_ptr<Op> operator()(const ReshapeSpec& s) const { return make_reshape(request, s); }
  std::unique_ptr<Op> operator()(const EmbeddingSpec& s) const { return make_embedding(request, s); }
  std::unique_ptr<Op> operator()(const PositionalEmbeddingSpec& s) const {
    return make_positional_embedding(request, s);
  }
  std::unique_ptr<Op> operator()(const RotarySpec& s) const { return make_rotary(request, s); }
  std::unique_ptr<Op> operator()(const AttentionSpec& s) const { return make_attention(request, s); }
  std::unique_ptr<Op> operator()(const RmsNormSpec& s) const { return make_rms_norm(request, s); }
  std::unique_ptr<Op> operator()(const SwigluSpec& s) const { return make_swiglu(request, s); }
};

const char* instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx512_core:
      return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "AVX-512 VNNI";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "AVX-512 bf16";
    default:
      return "newest instruction set";
  }
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const DeviceOptions& options) : threads_(std::max(options.threads, 1)), is_tuned_(options.tune) {
    omp_set_num_threads(threads_);
  }
  std::string name() const override { return "cpu"; }
  std::string describe() const override {
    const auto* version = dnnl_version();
    return fmt::format("cpu (oneDNN {}.{}.{}, {})", version->major, version->minor, version->patch, instruction_set());
  }

  std::string why_unsupported(const OpRequest& request) const override {
    for (const TensorDesc& input : request.inputs) {
      if (input.dtype != DType::f32) return fmt::format("cpu works on float32 tensors, found {}", name_of(input.dtype));
      if (input.shape[0] < 1) return "cpu ops need at least one row";
    }
    return "";
  }
  std::unique_ptr<Op> make(const OpRequest& request) override {
    if (const std::string reason = why_unsupported(request); !reason.empty()) fail(ExitCode::usage, "{}", reason);
    return std::visit(Make{request, is_tuned_ && !request.is_deterministic}, request.spec);
  }
  std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions, int threads) override {
    return cpu::make_loss(spec, predictions, threads);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return allocate_host(bytes); }

  void accumulate(void* destination, const void* source, const TensorDesc& desc) override {
    parallel_ranges(threads_, desc.padded_elements(),
                    [to = static_cast<float*>(destination), from = static_cast<const float*>(source)](
                        std::int64_t begin, std::int64_t end) {
#pragma omp simd
                      for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
                    });
  }
  void to_plain(const TensorDesc& desc, const void* source, float* plain) override {
    copy_to_plain(desc, source, plain);
  }
  void from_plain(const TensorDesc& desc, const float* plain, void* destination) override {
    copy_from_plain(desc, plain, destination);
  }

 private:
  int threads_;
  bool is_tuned_;
};

const bool is_registered = register_backend(
    {"cpu", [] { return std::string(); },
     [](const DeviceOptions& options) -> std::unique_ptr<Backend> { return std::make_unique<CpuBackend>(options); }});

}  // namespace
}  // namespace muster::device::cpu
