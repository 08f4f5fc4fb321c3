// Updates of arenas that lie in a backend's own memory: the backend does the arithmetic, this file hands it the rule
// with the numbers of the step. Names, slots and checks are those of the host's optimizer of the same kind.
#include "optim/optimizer.hpp"

#include <muster/base/error.hpp>
#include <muster/device/backend.hpp>

namespace muster::optim {
namespace {

device::UpdateRule rule_of(const OptimizerOptions& o) {
  device::UpdateRule rule;
  rule.kind = o.kind;
  rule.momentum = o.momentum;
  rule.beta1 = o.beta1;
  rule.beta2 = o.beta2;
  rule.epsilon = o.epsilon;
  rule.decay_rate = o.decay_rate;
  rule.weight_decay = o.weight_decay;
  rule.trust_coefficient = o.trust_coefficient;
  return rule;
}

class OnDevice : public Optimizer {
 public:
  OnDevice(const OptimizerOptions& options, device::Backend& backend)
      : rule_(rule_of(options)), backend_(backend), on_host_(make_optimizer(options)) {
    if (const std::string reason = backend.why_unsupported(rule_); !reason.empty())
      fail(ExitCode::usage, "optimizer: {}; choose another or another device.kind", reason);
  }
  const std::vector<std::string>& slots() const override { return on_host_->slots(); }
  bool needs_whole_parameters() const override { return on_host_->needs_whole_parameters(); }

  void update(const UpdateContext& context, std::span<float> weights, std::span<const float> grads,
              std::span<const std::span<float>> state, std::span<const ParamRun> runs) const override {
    device::UpdateRule rule = rule_;
    rule.lr = context.lr;
    rule.step = context.step;
    rule.grad_scale = context.grad_scale;
    thread_local std::vector<device::UpdateRun> kept;  // a training step allocates nothing
    kept.clear();
    for (const ParamRun& run : runs) kept.push_back({run.elements, run.has_decay});
    backend_.update(rule, {weights, grads, state, kept});
  }

 private:
  device::UpdateRule rule_;
  device::Backend& backend_;
  std::unique_ptr<Optimizer> on_host_;  // never updates: knows names and slots
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, device::Backend& backend) {
  if (backend.has_host_memory()) return make_optimizer(options);
  return std::make_unique<OnDevice>(options, backend);
}

}  // namespace muster::optim
