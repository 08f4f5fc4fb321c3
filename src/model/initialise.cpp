// Start values of parameters. Every element is a pure function of (seed, parameter index, element), so neither ranks
// nor layouts matter. Glorot and Bengio 2010; He et al. 2015; LeCun et al. 1998.
#include <muster/base/error.hpp>
#include <muster/base/rng.hpp>
#include <muster/model/network.hpp>

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
  for (std::size_t e = 0; e < plain.size(); ++e) {
    switch (draw.kind) {
      case Draw::Kind::constant:
        plain[e] = scale;
        break;
      case Draw::Kind::uniform:
        plain[e] = (2.0f * stream.uniform(e) - 1.0f) * scale;
        break;
      case Draw::Kind::normal:
        plain[e] = stream.normal(e) * scale;
        break;
      case Draw::Kind::truncated_normal:
        plain[e] = truncated(seed, index, e) * scale;
        break;
    }
  }
}

}  // namespace muster::model
