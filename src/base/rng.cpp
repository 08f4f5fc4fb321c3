#include <muster/base/rng.hpp>

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

namespace muster {

RandomStream::RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t major, std::uint32_t minor) noexcept
    : key_{static_cast<std::uint32_t>(seed),
           static_cast<std::uint32_t>(seed >> 32) ^ (static_cast<std::uint32_t>(purpose) << 24)},
      counter_{static_cast<std::uint32_t>(major), static_cast<std::uint32_t>(major >> 32), minor} {}

std::array<std::uint32_t, 4> RandomStream::block(std::uint32_t index) const noexcept {
  const r123::Philox4x32 philox;
  const auto result = philox({{counter_[0], counter_[1], counter_[2], index}}, {{key_[0], key_[1]}});
  return {result[0], result[1], result[2], result[3]};
}

std::uint32_t RandomStream::bits(std::uint64_t element) const noexcept {
  return block(static_cast<std::uint32_t>(element / 4))[element % 4];
}

float RandomStream::uniform(std::uint64_t element) const noexcept {
  return static_cast<float>(bits(element) >> 8) * 0x1p-24f;
}

float RandomStream::normal(std::uint64_t element) const noexcept {
  const auto words = block(static_cast<std::uint32_t>(element / 2));
  // (0, 1] for the logarithm
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(words[0]) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(words[1]) * 0x1p-32;
  return static_cast<float>(radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

std::uint32_t RandomStream::below(std::uint64_t element, std::uint32_t bound) const noexcept {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits(element)) * bound) >> 32);
}

}  // namespace muster
