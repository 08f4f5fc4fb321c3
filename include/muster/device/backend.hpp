// A backend: a family of ops and the memory they work on. Backends are files joined by a registry: `ref` (plain loops,
// the truth, never optimised), `cpu` (oneDNN), `cuda`. An absent backend is a normal answer with a reason.
//
// Memory. A backend's ops read and write the memory that its allocate() gives. Where has_host_memory() is false the
// host cannot touch it: whoever is above this line moves bytes through copy_in, copy_out, copy and fill_zero alone.
// Ops, copies and updates of one backend take effect in the order of the calls, but may return before they are done;
// what they leave in host memory (statistics, copy_out) is there after synchronize() or, for copy_out, on return.
#pragma once

#include <muster/device/op.hpp>
#include <muster/device/options.hpp>
#include <muster/device/update.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::device {

/// Memory of a backend, zeroed; freed with the object. data() is a host pointer where Backend::has_host_memory().
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual std::size_t bytes() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// One line for `muster info`: library and version, instruction set.
  virtual std::string describe() const = 0;

  /// Why this request cannot be served ("" when it can): spec, shapes, types.
  virtual std::string why_unsupported(const OpRequest& request) const = 0;
  /// Throws Error(usage) with why_unsupported's text.
  virtual std::unique_ptr<Op> make(const OpRequest& request) = 0;
  virtual std::unique_ptr<LossOp> make_loss(const LossSpec& spec, const TensorDesc& predictions, int threads) = 0;

  /// 64-byte aligned, huge pages where possible, touched. Throws Error(device) when memory runs out.
  virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
  /// destination += source over `desc` (padding included).
  virtual void accumulate(void* destination, const void* source, const TensorDesc& desc) = 0;
  /// Plain copies for checkpoints, input and output: `plain` is row-major float32 of desc.shape.
  virtual void to_plain(const TensorDesc& desc, const void* source, float* plain) = 0;
  virtual void from_plain(const TensorDesc& desc, const float* plain, void* destination) = 0;

  // The rest is for backends with memory of their own; as inherited, all memory is the host's.
  virtual bool has_host_memory() const { return true; }
  virtual void copy_in(void* destination, const void* host, std::size_t bytes);
  virtual void copy_out(void* host, const void* source, std::size_t bytes);
  virtual void copy(void* destination, const void* source, std::size_t bytes);
  virtual void fill_zero(void* destination, std::size_t bytes);
  /// Returns when everything asked for so far is done.
  virtual void synchronize() {}
  /// Why this backend cannot do updates of this kind ("" when it can). Only asked where memory is not the host's.
  virtual std::string why_unsupported(const UpdateRule& rule) const;
  /// One step of an optimizer over arenas of this backend's memory.
  virtual void update(const UpdateRule& rule, const UpdateArenas& arenas);
};

/// One entry of the registry; `probe` says why the backend cannot run here ("" when it can).
struct BackendEntry {
  std::string name;
  std::string (*probe)();
  std::unique_ptr<Backend> (*make)(const DeviceOptions& options);
};
/// Called by a static object in each backend's registration file.
bool register_backend(BackendEntry entry);
std::vector<BackendEntry> registered_backends();
/// kind: ref, cpu, cuda or auto (cuda where it works, else cpu). Throws Error(launch) that names what is missing and
/// why.
std::unique_ptr<Backend> make_backend(const DeviceOptions& options);

}  // namespace muster::device
