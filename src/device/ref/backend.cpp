// The `ref` backend: registration and the table of its ops.
#include "device/host_buffer.hpp"
#include "device/ref/ref.hpp"

#include <muster/device/backend.hpp>

namespace muster::device::ref {
namespace {

struct Make {
  const OpRequest& request;
  std::unique_ptr<Op> operator()(const DenseSpec& s) const { return make_dense(request, s); }
  std::unique_ptr<Op> operator()(const Conv2dSpec& s) const { return make_conv2d(request, s); }
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

class RefBackend : public Backend {
 public:
  std::string name() const override { return "ref"; }
  std::string describe() const override { return "ref (plain loops, for checking only)"; }

  std::string why_unsupported(const OpRequest& request) const override {
    for (const TensorDesc& input : request.inputs)
      if (!input.is_plain() || input.dtype != DType::f32) return "ref works on plain float32 tensors only";
    return "";
  }
  std::unique_ptr<Op> make(const OpRequest& request) override {
    if (const std::string reason = why_unsupported(request); !reason.empty()) fail(ExitCode::usage, "{}", reason);
    return std::visit(Make{request}, request.spec);
  }
  std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions, int) override {
    return ref::make_loss(spec, predictions);
  }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return allocate_host(bytes); }
  void accumulate(void* destination, const void* source, const TensorDesc& desc) override {
    auto* to = static_cast<float*>(destination);
    const auto* from = static_cast<const float*>(source);
    for (std::int64_t i = 0; i < desc.padded_elements(); ++i) to[i] += from[i];
  }
  void to_plain(const TensorDesc& desc, const void* source, float* plain) override {
    std::copy_n(static_cast<const float*>(source), desc.shape.elements(), plain);
  }
  void from_plain(const TensorDesc& desc, const float* plain, void* destination) override {
    std::copy_n(plain, desc.shape.elements(), static_cast<float*>(destination));
  }
};

const bool is_registered =
    register_backend({"ref", [] { return std::string(); },
                      [](const DeviceOptions&) -> std::unique_ptr<Backend> { return std::make_unique<RefBackend>(); }});

}  // namespace
}  // namespace muster::device::ref
