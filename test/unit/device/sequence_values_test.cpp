// The ops of sequences on every backend against values worked out by hand.
#include "hand_case.hpp"

namespace muster::device::test {
namespace {

TEST(SequenceValues, DenseAndLayerNormPerPosition) {
  check({"dense per position",
         DenseSpec{1, true, Activation::none, true},
         {{1, 2, 2}},
         {{1, 2, 3, 4}},
         {{10, 1}, {100}},
         {112, 134},
         {1, 2},
         {{10, 1, 20, 2}},
         {{7, 10}, {3}}});
  LayerNormSpec spec;
  spec.epsilon = 1e-12f;
  spec.is_per_position = true;
  // Positions [1 3] and [5 5], as in LayerNorm above
  check({"layer norm per position",
         spec,
         {{1, 2, 2}},
         {{1, 3, 5, 5}},
         {{2, 10}, {1, 1}},
         {-1, 11, 1, 1},
         {1, 2, 0, 0},
         {{0, 0, 0, 0}},
         {{-1, 2}, {1, 2}}},
        1e-5);
}

TEST(SequenceValues, RmsNormAndSwiglu) {
  // mean square of [3 4]: 12.5; xhat = [3 4] / sqrt(12.5); dx = (g - xhat mean(g xhat)) / sqrt(12.5) with g = [2 0]
  check({"rms norm",
         RmsNormSpec{1e-12f},
         {{1, 1, 2}},
         {{3, 4}},
         {{2, 10}},
         {1.69705627f, 11.3137085f},
         {1, 0},
         {{0.28284271f * (2 - 0.72f), 0.28284271f * -0.96f}},
         {{0.84852814f, 0}}});
  // silu(2) and its slope as in Activations above
  check({"swiglu",
         SwigluSpec{},
         {{1, 2, 2}},
         {{2, 3, 0, 5}},
         {},
         {3 * 1.76159416f, 0},
         {1, 2},
         {{3 * 1.09078424f, 1.76159416f, 2 * 5 * 0.5f, 0}},
         {}});
}

TEST(SequenceValues, EmbeddingsAndRotary) {
  check({"embedding",
         EmbeddingSpec{3, 2},
         {{2, 2}},
         {{2, 0, 2, 2}},
         {{1, 2, 3, 4, 5, 6}},
         {5, 6, 1, 2, 5, 6, 5, 6},
         {1, 2, 3, 4, 5, 6, 7, 8},
         {{0, 0, 0, 0}},
         {{3, 4, 0, 0, 1 + 5 + 7, 2 + 6 + 8}}});
  check({"positional embedding",
         PositionalEmbeddingSpec{3},
         {{2, 2, 1}},
         {{1, 2, 3, 4}},
         {{10, 20, 30}},
         {11, 22, 13, 24},
         {1, 2, 3, 4},
         {{1, 2, 3, 4}},
         {{4, 6, 0}}});
  // One head of two features, one more feature that passes: position 0 stays, position 1 turns by 1 rad
  const float c = 0.54030231f, s = 0.84147098f;
  check({"rotary",
         RotarySpec{1, 2},
         {{1, 2, 3}},
         {{1, 2, 3, 1, 10, 7}},
         {},
         {1, 2, 3, c - 10 * s, s + 10 * c, 7},
         {1, 2, 3, 1, 0, 2},
         {{1, 2, 3, c, -s, 2}},
         {}},
        2e-6);
}

TEST(SequenceValues, Attention) {
  // One head of one feature; position 0 sees itself. Position 1: q = ln 3, keys 1 and 0, so scores ln 3 and 0 and
  // weights 3/4 and 1/4 of the values 4 and 8: 5. Backward with dy = [1 1]: dv = [1 + 3/4, 1/4], d weights = [4 8],
  // their mean 5, d scores = [3/4 (4 - 5), 1/4 (8 - 5)].
  AttentionSpec spec;
  spec.head_dim = 1;
  const float q = 1.09861229f;
  check({"attention",
         spec,
         {{1, 2, 3}},
         {{0, 1, 4, q, 0, 8}},
         {},
         {4, 5},
         {1, 1},
         {{0, -0.75f * q, 1.75f, -0.75f, 0.75f * q, 0.25f}},
         {}});
  // Not causal: position 0 (q = 0) weighs both values equally: 6; its d scores are 1/2 (4 - 6), 1/2 (8 - 6)
  spec.is_causal = false;
  check({"not causal",
         spec,
         {{1, 2, 3}},
         {{0, 1, 4, q, 0, 8}},
         {},
         {6, 5},
         {1, 1},
         {{-1, -0.75f * q, 1.25f, -0.75f, 0.75f * q, 0.75f}},
         {}});
}

TEST(SequenceValues, AttentionWithACacheContinuesASequence) {
  on_every_backend([](Backend& backend) {
    const std::int64_t length = 5, width = 2 * 3 + 2 * 3;  // two query heads, one key/value head of 3 features
    AttentionSpec spec;
    spec.heads = 2;
    spec.kv_heads = 1;
    spec.head_dim = 3;
    const Values x = random_values(2 * length * width, 5);
    OpRun whole(backend, spec, {{2, length, width}}, false);
    whole.set_input(x);
    const Values expected = whole.forward();
    spec.cache = length;
    OpRun one(backend, spec, {{2, 1, width}}, false);
    for (const int round : {1, 2})  // position 0 begins anew
      for (std::int64_t t = 0; t < length; ++t) {
        Values piece;
        for (std::int64_t n = 0; n < 2; ++n)
          piece.insert(piece.end(), x.begin() + (n * length + t) * width, x.begin() + (n * length + t + 1) * width);
        one.set_input(piece);
        one.context.position = t;
        const Values y = one.forward();
        for (std::int64_t n = 0; n < 2; ++n)
          for (std::int64_t c = 0; c < 6; ++c)
            EXPECT_NEAR(y[static_cast<std::size_t>(n * 6 + c)],
                        expected[static_cast<std::size_t>((n * length + t) * 6 + c)], 1e-6)
                << round << " " << t;
      }
  });
}

TEST(SequenceValues, EmbeddingRefusesUnknownTokens) {
  on_every_backend([](Backend& backend) {
    for (const float id : {3.0f, -1.0f, NAN}) {
      OpRun run(backend, EmbeddingSpec{3, 2}, {{1, 2}});
      run.set_input({0, id});
      run.set_param(0, {1, 2, 3, 4, 5, 6});
      try {
        run.forward();
        FAIL() << id;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        EXPECT_NE(std::string(error.what()).find("at position 1 is outside the vocabulary of 3"), std::string::npos);
      }
    }
  });
}

// A NaN comes out of every op of ref, so that a diverged run shows in its loss. (oneDNN's fused relu and maxima drop
// it.)
}  // namespace
}  // namespace muster::device::test
