// Networks cut into stages: where they may be cut, how evenly, and that the stages one after the other make the very
// loss and gradients of the whole network, wherever it is cut.
#include "unit/message_of.hpp"
#include "unit/model/networks.hpp"
#include "unit/model/samples.hpp"

#include <gtest/gtest.h>

#include <muster/model/program.hpp>
#include <muster/model/stages.hpp>

#include <cmath>

namespace muster::model::test {
namespace {

Network build(Shape input, LayerList layers) { return build_network({input, std::move(layers), {}, 0}); }

/// Nodes: 0 dense, 1 dense+relu, 2 dense, 3 add, 4 dense.
Network small_residual() { return build({6}, {dense(8), residual({dense(8), relu(), dense(8)}), dense(3)}); }

TEST(Stages, CutPointsByHand) {
  const std::vector<CutPoint> points = cut_points(small_residual());
  ASSERT_EQ(points.size(), 4u);
  const std::vector<std::vector<int>> crossing{{0}, {0, 1}, {0, 2}, {3}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(points[i].position, static_cast<int>(i) + 1);
    EXPECT_EQ(points[i].values, crossing[i]);
  }
}

TEST(Stages, TheNetworksInputStaysInTheFirstStage) {
  // The input is the shortcut: nothing can be cut before the add, node 1.
  const std::vector<CutPoint> points = cut_points(build({6}, {residual({dense(6)}), dense(3)}));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].position, 2);
}

TEST(Stages, BalancedByFlops) {
  // Multiply-adds 600, 100, 100, 100, 500: the best three stages are 600 | 300 | 500.
  const Network network = build({60}, {dense(10), dense(10), dense(10), dense(10), dense(50)});
  EXPECT_EQ(cut_stages(network, 3).boundaries, (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(cut_stages(network, 3).flops, (std::vector<double>{1200, 600, 1000}));
  EXPECT_EQ(cut_stages(network, 2).boundaries, (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(cut_stages(network, 1).boundaries, (std::vector<int>{0, 5}));
  EXPECT_EQ(cut_stages(network, 5).boundaries, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(Stages, RefusesMoreStagesThanCutPoints) {
  EXPECT_EQ(muster::test::message_of([] { cut_stages(small_residual(), 6); }),
            "parallel.grid.pipeline: 6 stages need 5 places to cut the network, it has 4; use at most 5 stages");
}

TEST(Stages, PartsKeepNamesAndStartValues) {
  const Network whole = small_residual();
  const Network last = stage_network(whole, {{0, 3, 5}, {0, 0}}, 1);
  ASSERT_EQ(last.params.size(), 2u);
  EXPECT_EQ(last.params[0].name, whole.params[6].name);
  EXPECT_EQ(last.params[0].index, 6);
  EXPECT_TRUE(last.has_loss());
  ASSERT_EQ(last.entering.size(), 2u);
  EXPECT_TRUE(last.entering[0].has_gradient);
  EXPECT_FALSE(stage_network(whole, {{0, 3, 5}, {0, 0}}, 0).has_loss());
}

/// A network in one or several programs run one after the other.
struct Parts {
  Parts(const Network& network, const std::vector<int>& boundaries, const std::string& kind, std::int64_t rows)
      : whole(network) {
    device::DeviceOptions device_options;
    device_options.kind = kind;
    device_options.threads = 1;
    backend = device::make_backend(device_options);
    const StageCut cut{boundaries, std::vector<double>(boundaries.size() - 1, 0.0)};
    for (int s = 0; s < cut.stages(); ++s) {
      networks.push_back(std::make_unique<Network>(stage_network(whole, cut, s)));
      ProgramOptions options;
      options.rows = rows;
      options.is_deterministic = true;
      options.bucket_elements = 7;
      programs.push_back(
          std::make_unique<Program>(*networks.back(), *backend, options, std::vector<device::TensorDesc>{}));
      stores.push_back(std::make_unique<ParameterStore>(*networks.back(), *backend, programs.back()->param_descs()));
      gradients.emplace_back(static_cast<std::size_t>(stores.back()->elements()), NAN);
      programs.back()->bind(*stores.back(), gradients.back());
      stores.back()->initialise(5);
    }
    context = {3, 2, 0, rows};
  }

  /// Loss units; leaves the gradients.
  std::int64_t run(const std::vector<float>& inputs, const std::vector<std::int32_t>& labels) {
    std::vector<float> carried = inputs;
    std::int64_t units = 0;
    for (std::size_t s = 0; s < programs.size(); ++s) {
      Program& program = *programs[s];
      EXPECT_EQ(program.entering_elements(), static_cast<std::int64_t>(carried.size()));
      const bool is_last = s + 1 == programs.size();
      program.load(carried.data(), is_last ? labels.data() : nullptr);
      for (std::size_t i = 0; i < program.forward_segments().size(); ++i) program.forward(i, context);
      carried.assign(static_cast<std::size_t>(program.leaving_elements()), NAN);
      if (is_last) units = program.loss(context).loss_units;
      else program.read_leaving(carried.data());
    }
    for (std::size_t s = programs.size(); s-- > 0;) {
      Program& program = *programs[s];
      if (s + 1 < programs.size()) {
        EXPECT_EQ(program.leaving_gradient_elements(), static_cast<std::int64_t>(carried.size()));
        program.load_leaving_gradient(carried.data());
      }
      for (std::size_t i = 0; i < program.backward_segments().size(); ++i) program.backward(i, context, [] {});
      carried.assign(static_cast<std::size_t>(program.entering_gradient_elements()), NAN);
      program.read_entering_gradient(carried.data());
    }
    EXPECT_TRUE(carried.empty());  // nobody wants the gradient of the network's input
    return units;
  }

  std::vector<float> gradient(const std::string& name) const {
    for (std::size_t s = 0; s < networks.size(); ++s)
      for (std::size_t p = 0; p < networks[s]->params.size(); ++p)
        if (networks[s]->params[p].name == name) return stores[s]->to_plain(static_cast<int>(p), gradients[s]);
    return {};
  }

  const Network& whole;
  std::unique_ptr<device::Backend> backend;
  std::vector<std::unique_ptr<Network>> networks;
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::unique_ptr<ParameterStore>> stores;
  std::vector<std::vector<float>> gradients;
  device::RunContext context;
};

void expect_same(const Network& network, const std::vector<int>& boundaries, const std::string& kind) {
  constexpr std::int64_t rows = 4;
  const std::vector<float> inputs = test::random_inputs(network, rows);
  const std::vector<std::int32_t> labels = test::labels_in_turn(network, rows);

  std::string where = kind + ", cut at";
  for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) where += " " + std::to_string(boundaries[i]);
  Parts one(network, {0, boundaries.back()}, kind, rows);
  Parts several(network, boundaries, kind, rows);
  const std::int64_t units = one.run(inputs, labels);
  ASSERT_GT(units, 0);
  EXPECT_NEAR(static_cast<double>(several.run(inputs, labels)) / static_cast<double>(units), 1, 1e-6) << where;
  for (const ParamInfo& param : network.params) {
    const std::vector<float> expected = one.gradient(param.name), found = several.gradient(param.name);
    ASSERT_EQ(found.size(), expected.size()) << where << " " << param.name;
    float scale = 1e-2f;  // a bias before a batch norm has none but rounding
    for (float value : expected) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 2e-5 * scale) << where << " " << param.name << "[" << i << "]";
  }
}

void check_all_cuts(const Network& network) {
  const int count = static_cast<int>(network.nodes.size());
  const std::vector<CutPoint> points = cut_points(network);
  ASSERT_GE(points.size(), 2u);
  for (const std::string kind : {"ref", "cpu"}) {
    for (const CutPoint& point : points) expect_same(network, {0, point.position, count}, kind);
    for (std::size_t i = 0; i + 2 < points.size(); ++i)  // a middle stage of two nodes: values pass it by
      expect_same(network, {0, points[i].position, points[i + 2].position, count}, kind);
    std::vector<int> every{0};
    for (const CutPoint& point : points) every.push_back(point.position);
    every.push_back(count);
    expect_same(network, every, kind);
  }
}

TEST(Stages, ChainWhereverItIsCut) { check_all_cuts(build({6}, {dense(8), relu(), dense(7), dense(3)})); }
TEST(Stages, ResidualWhereverItIsCut) { check_all_cuts(small_residual()); }
TEST(Stages, ConvolutionsWhereverTheyAreCut) {
  check_all_cuts(
      build({3, 6, 6}, {conv(16, 3), batch_norm(2), relu(), residual({conv(16, 3), batch_norm(2), relu(), conv(16, 3)}),
                        relu(), residual({conv(16, 3, 2), batch_norm(2)}, {conv(16, 1, 2)}), relu(), dropout(0.3f),
                        pool(device::Pool2dSpec::Kind::average, 3, true), dense(4)}));
}
TEST(Stages, BranchesWhereverTheyAreCut) {
  check_all_cuts(build(
      {2, 4, 4}, {conv(4, 3), branches(true, {{conv(4, 1), relu()}, {conv(4, 3)}}), relu(), flatten(), dense(3)}));
}
TEST(Stages, TransformersWhereverTheyAreCut) { check_all_cuts(build({4}, gpt(7, 8, 2, false))); }

TEST(Stages, TiedWeightsAreHeldByBothStages) {
  const Network whole = build({4}, gpt(7, 8, 1));
  const int count = static_cast<int>(whole.nodes.size());
  const StageCut cut{{0, 2, 4, count}, {0, 0, 0}};
  const Network first = stage_network(whole, cut, 0), middle = stage_network(whole, cut, 1),
                last = stage_network(whole, cut, 2);
  EXPECT_EQ(first.params[0].name, "tokens.weight");
  EXPECT_EQ(first.params[0].holders, (std::vector<int>{0, 2}));
  EXPECT_EQ(last.params.back().name, "tokens.weight");
  EXPECT_EQ(last.params.back().index, first.params[0].index);
  EXPECT_EQ(last.params.back().holders, (std::vector<int>{0, 2}));
  for (const ParamInfo& param : middle.params) EXPECT_TRUE(param.holders.empty());

  // The two shares add up to the gradient of the whole.
  const std::vector<float> inputs{0, 3, 6, 1, 2, 2, 5, 4};
  const std::vector<std::int32_t> labels{1, 2, 3, 4, 5, 6, 0, 1};
  Parts one(whole, {0, count}, "ref", 2), several(whole, cut.boundaries, "ref", 2);
  EXPECT_EQ(several.run(inputs, labels), one.run(inputs, labels));
  const std::vector<float> expected = one.gradient("tokens.weight");
  const std::vector<float> head =
      several.stores[2]->to_plain(static_cast<int>(last.params.size()) - 1, several.gradients[2]);
  const std::vector<float> embedding = several.gradient("tokens.weight");
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(embedding[i] + head[i], expected[i], 1e-6) << i;
}

TEST(Stages, NoGradientGoesWhereNothingIsTrained) {
  // The pool has no parameters: a cut behind it asks for no gradient.
  const Network network = build({2, 4, 4}, {pool(device::Pool2dSpec::Kind::max, 2), conv(4, 3), flatten(), dense(3)});
  expect_same(network, {0, 1, 2, 3}, "ref");
  EXPECT_FALSE(stage_network(network, {{0, 1, 3}, {0, 0}}, 1).entering[0].has_gradient);
}

}  // namespace
}  // namespace muster::model::test
