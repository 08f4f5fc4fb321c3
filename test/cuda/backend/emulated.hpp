// The `cuda` backend of the emulated plugin that lies beside the test binary, and short ways in and out of its memory.
#pragma once

#include <gtest/gtest.h>

#include <muster/base/rng.hpp>
#include <muster/device/backend.hpp>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace muster::device::test {

using Values = std::vector<float>;

inline const bool is_plugin_named = [] {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return ::setenv("MUSTER_CUDA_PLUGIN", (folder / "libmuster_cuda_emulated.so").c_str(), 1) == 0;
}();

inline std::unique_ptr<Backend> backend_named(const std::string& kind) {
  DeviceOptions options;
  options.kind = kind;
  return make_backend(options);
}

/// A setting of the emulation, as long as the object lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Setting() { ::unsetenv(name_); }

 private:
  const char* name_;
};

inline Values random_values(std::int64_t count, std::uint32_t which) {
  const RandomStream stream(11, Purpose::test, which, 0);
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = stream.normal(i) + 0.1f;
  return values;
}

/// Floats in a backend's memory: the given ones, or NaN.
class Floats {
 public:
  Floats(Backend& backend, const Values& values) : backend_(backend), count_(values.size()) {
    buffer_ = backend.allocate(std::max<std::size_t>(count_, 1) * sizeof(float));
    backend_.copy_in(buffer_->data(), values.data(), count_ * sizeof(float));
  }
  Floats(Backend& backend, std::int64_t count)
      : Floats(backend, Values(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN())) {}
  float* data() { return static_cast<float*>(buffer_->data()); }
  std::span<float> span() { return {data(), count_}; }
  Values read() {
    Values values(count_);
    backend_.copy_out(values.data(), data(), count_ * sizeof(float));
    return values;
  }

 private:
  Backend& backend_;
  std::size_t count_;
  std::unique_ptr<Buffer> buffer_;
};

inline void expect_near(const Values& found, const Values& expected, float tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * (1.0f + std::abs(expected[i]))) << what << ", element " << i;
}

}  // namespace muster::device::test
