// A backend whose memory the host cannot touch: the `ref` ops over pages without any access right, which are opened
// only while the backend itself works. Whatever above the backend reads or writes through a pointer of its memory dies
// at once. It stands for a device with memory of its own in tests of everything above the device layer.
#pragma once

#include <muster/base/check.hpp>
#include <muster/device/backend.hpp>
#include <muster/optim/optimizer.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace muster::train {

/// All sealed memory; opened as a whole.
class Vault {
 public:
  void add(void* base, std::size_t bytes) { pieces_.insert({base, bytes}); }
  void remove(void* base, std::size_t bytes) { pieces_.erase({base, bytes}); }
  void set(int rights) {
    for (const auto& [base, bytes] : pieces_)
      MUSTER_CHECK(::mprotect(base, bytes, rights) == 0, "mprotect of {} bytes", bytes);
  }

 private:
  std::set<std::pair<void*, std::size_t>> pieces_;
};

/// The vault is open while one of these lives.
class Opened {
 public:
  explicit Opened(Vault& vault) : vault_(vault) { vault_.set(PROT_READ | PROT_WRITE); }
  ~Opened() { vault_.set(PROT_NONE); }

 private:
  Vault& vault_;
};

class SealedBuffer : public device::Buffer {
 public:
  SealedBuffer(Vault& vault, std::size_t bytes)
      : vault_(vault), bytes_(bytes), mapped_(std::max<std::size_t>((bytes + 4095) / 4096, 1) * 4096) {
    base_ = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUSTER_CHECK(base_ != MAP_FAILED, "mmap of {} bytes", mapped_);
    vault_.add(base_, mapped_);
  }
  ~SealedBuffer() override {
    vault_.remove(base_, mapped_);
    ::munmap(base_, mapped_);
  }
  void* data() override { return base_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  Vault& vault_;
  std::size_t bytes_, mapped_;
  void* base_ = nullptr;
};

class SealedOp : public device::Op {
 public:
  SealedOp(Vault& vault, std::unique_ptr<device::Op> op) : vault_(vault), op_(std::move(op)) {}
  const device::TensorDesc& output() const override { return op_->output(); }
  const std::vector<device::TensorDesc>& params() const override { return op_->params(); }
  const device::OpTraits& traits() const override { return op_->traits(); }
  std::string implementation() const override { return "sealed"; }
  void bind(const device::OpBuffers& buffers) override { op_->bind(buffers); }
  void forward(int phase, const device::RunContext& context) override {
    run([&] { op_->forward(phase, context); });
  }
  void backward(int phase, const device::RunContext& context) override {
    run([&] { op_->backward(phase, context); });
  }
  void end_step(const device::RunContext& context) override {
    run([&] { op_->end_step(context); });
  }

 private:
  template <class Body>
  void run(const Body& body) {
    op_->bind_statistics(forward_statistics_, backward_statistics_, deferred_statistics_);
    const Opened opened(vault_);
    body();
  }
  Vault& vault_;
  std::unique_ptr<device::Op> op_;
};

class SealedLoss : public device::LossOp {
 public:
  SealedLoss(Vault& vault, std::unique_ptr<device::LossOp> op) : vault_(vault), op_(std::move(op)) {}
  void run(const void* predictions, const void* targets, float* row_loss, void* grad,
           const device::RunContext& context) override {
    const Opened opened(vault_);
    op_->run(predictions, targets, row_loss, grad, context);
  }

 private:
  Vault& vault_;
  std::unique_ptr<device::LossOp> op_;
};

class SealedBackend : public device::Backend {
 public:
  SealedBackend() {
    device::DeviceOptions options;
    options.kind = "ref";
    ref_ = device::make_backend(options);
  }
  std::string name() const override { return "sealed"; }
  std::string describe() const override { return "sealed (ref on memory of its own)"; }
  std::string why_unsupported(const device::OpRequest& request) const override {
    return ref_->why_unsupported(request);
  }
  std::unique_ptr<device::Op> make(const device::OpRequest& request) override {
    return std::make_unique<SealedOp>(vault_, ref_->make(request));
  }
  std::unique_ptr<device::LossOp> make_loss(const device::LossSpec& spec, const device::TensorDesc& predictions,
                                            int threads) override {
    return std::make_unique<SealedLoss>(vault_, ref_->make_loss(spec, predictions, threads));
  }
  std::unique_ptr<device::Buffer> allocate(std::size_t bytes) override {
    return std::make_unique<SealedBuffer>(vault_, bytes);
  }
  void accumulate(void* destination, const void* source, const device::TensorDesc& desc) override {
    open([&] { ref_->accumulate(destination, source, desc); });
  }
  void to_plain(const device::TensorDesc& desc, const void* source, float* plain) override {
    open([&] { ref_->to_plain(desc, source, plain); });
  }
  void from_plain(const device::TensorDesc& desc, const float* plain, void* destination) override {
    open([&] { ref_->from_plain(desc, plain, destination); });
  }
  bool has_host_memory() const override { return false; }
  void copy_in(void* destination, const void* host, std::size_t bytes) override {
    open([&] { std::memcpy(destination, host, bytes); });
  }
  void copy_out(void* host, const void* source, std::size_t bytes) override {
    open([&] { std::memcpy(host, source, bytes); });
  }
  void copy(void* destination, const void* source, std::size_t bytes) override {
    open([&] { std::memcpy(destination, source, bytes); });
  }
  void fill_zero(void* destination, std::size_t bytes) override {
    open([&] { std::memset(destination, 0, bytes); });
  }
  std::string why_unsupported(const device::UpdateRule& rule) const override {
    return rule.kind == "lamb" ? "sealed has no lamb" : "";  // one refusal, so that it can be tested
  }
  void update(const device::UpdateRule& rule, const device::UpdateArenas& arenas) override {
    optim::OptimizerOptions options;
    options.kind = rule.kind;
    options.momentum = rule.momentum;
    options.beta1 = rule.beta1;
    options.beta2 = rule.beta2;
    options.epsilon = rule.epsilon;
    options.decay_rate = rule.decay_rate;
    options.weight_decay = rule.weight_decay;
    options.trust_coefficient = rule.trust_coefficient;
    std::vector<optim::ParamRun> runs;
    for (const device::UpdateRun& run : arenas.runs) runs.push_back({"", run.elements, run.has_decay});
    const auto optimizer = optim::make_optimizer(options);
    open([&] {
      optimizer->update({rule.lr, rule.step, rule.grad_scale, 1}, arenas.weights, arenas.grads, arenas.state, runs);
    });
  }

 private:
  template <class Body>
  void open(const Body& body) {
    const Opened opened(vault_);
    body();
  }
  Vault vault_;
  std::unique_ptr<device::Backend> ref_;
};

inline const bool is_sealed_registered =
    device::register_backend({"sealed", [] { return std::string(); },
                              [](const device::DeviceOptions&) -> std::unique_ptr<device::Backend> {
                                return std::make_unique<SealedBackend>();
                              }});

}  // namespace muster::train
