// Start values of parameters. Every element is a pure function of (seed, parameter index, element), so neither ranks
// nor layouts matter. Glorot and Bengio 2010; He et al. 2015; LeCun et al. 1998.
#include <muster/base/error.hpp>
#include <muster/base/rng.hpp>
#include <muster/model/network.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace muster::model {
namespace {

struct Draw {
  enum class Kind { constant, uniform, normal, truncated_normal } kind;
  double scale;  // constant: the value; uniform: the bound; normal: the deviation
};

Draw draw_for(const ParamInfo& param) {
  const double in = static_cast<double>(param.fan_in), out = static_cast<double>(param.fan_out);
  const double value = param.initializer.value;
  const std::map<std::string, Draw> by_name{
      {"default", {Draw::Kind::uniform, 1.0 / std::sqrt(in)}},
      {"zeros", {Draw::Kind::constant, 0.0}},
      {"ones", {Draw::Kind::constant, 1.0}},
      {"constant", {Draw::Kind::constant, value}},
      {"uniform", {Draw::Kind::uniform, value == 0 ? 0.05 : value}},
      {"normal", {Draw::Kind::normal, value == 0 ? 0.05 : value}},
      {"truncated_normal", {Draw::Kind::truncated_normal, value == 0 ? 0.05 : value}},
      {"glorot_uniform", {Draw::Kind::uniform, std::sqrt(6.0 / (in + out))}},
      {"glorot_normal", {Draw::Kind::normal, std::sqrt(2.0 / (in + out))}},
      {"he_uniform", {Draw::Kind::uniform, std::sqrt(6.0 / in)}},
      {"he_normal", {Draw::Kind::normal, std::sqrt(2.0 / in)}},
      {"lecun_uniform", {Draw::Kind::uniform, std::sqrt(3.0 / in)}},
      {"lecun_normal", {Draw::Kind::normal, std::sqrt(1.0 / in)}},
  };
  const auto found = by_name.find(param.initializer.name);
  if (found == by_name.end())
    fail(ExitCode::usage, "parameter '{}': unknown initializer '{}'", param.name, param.initializer.name);
  return found->second;
}

/// Normal cut at two deviations by drawing again: attempt a of element e is word e of the stream's sub-stream a.
float truncated(std::uint64_t seed, int index, std::uint64_t element) {
  for (std::uint32_t attempt = 1;; ++attempt) {
    const float value = RandomStream(seed, Purpose::init, static_cast<std::uint64_t>(index), attempt).normal(element);
    if (std::abs(value) <= 2.0f) return value;
  }
}

/// Words per call of the random stream.
constexpr std::size_t chunk = 1024;

void draw_uniform(const RandomStream& stream, float scale, std::span<float> out) {
  std::array<std::uint32_t, chunk> words;
  for (std::size_t at = 0; at < out.size(); at += chunk) {
    const std::size_t count = std::min(chunk, out.size() - at);
    stream.fill(static_cast<std::uint32_t>(at / 4), {words.data(), count});
    for (std::size_t i = 0; i < count; ++i) out[at + i] = (2.0f * RandomStream::unit(words[i]) - 1.0f) * scale;
  }
}

/// Two normals from each block, as RandomStream::normal.
void draw_normal(const RandomStream& stream, float scale, std::span<float> out) {
  std::array<std::uint32_t, chunk> words;
  constexpr std::size_t step = chunk / 2;
  for (std::size_t at = 0; at < out.size(); at += step) {
    stream.fill(static_cast<std::uint32_t>(at / 2), words);
    const std::size_t count = std::min(step, out.size() - at);
    for (std::size_t i = 0; i < count; i += 2) {
      const auto pair = RandomStream::normal_pair(words[2 * i], words[2 * i + 1]);
      out[at + i] = pair[0] * scale;
      if (i + 1 < count) out[at + i + 1] = pair[1] * scale;
    }
  }
}

}  // namespace

std::vector<std::string> initializer_names() {
  return {"default",          "zeros",          "ones",          "constant",   "uniform",   "normal",
          "truncated_normal", "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform",
          "lecun_normal"};
}

void initialise(const ParamInfo& param, int index, std::uint64_t seed, std::span<float> plain) {
  const Draw draw = draw_for(param);
  const RandomStream stream(seed, Purpose::init, static_cast<std::uint64_t>(index), 0);
  const float scale = static_cast<float>(draw.scale);
  switch (draw.kind) {
    case Draw::Kind::constant:
      std::fill(plain.begin(), plain.end(), scale);
      break;
    case Draw::Kind::uniform:
      draw_uniform(stream, scale, plain);
      break;
    case Draw::Kind::normal:
      draw_normal(stream, scale, plain);
      break;
    case Draw::Kind::truncated_normal:
      for (std::size_t e = 0; e < plain.size(); ++e) plain[e] = truncated(seed, index, e) * scale;
      break;
  }
}

}  // namespace muster::model
