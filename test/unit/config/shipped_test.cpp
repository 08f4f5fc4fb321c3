// The configs that are shipped: each loads, builds, and goes round; the reference is the generated one.
#include "testing.hpp"

#include <muster/base/file.hpp>
#include <muster/model/network.hpp>

#include <algorithm>

namespace muster::config::testing {
namespace {

namespace fs = std::filesystem;

/// Every config under configs/; folders named models hold parts of configs.
std::vector<fs::path> shipped() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(source_folder() / "configs"))
    if (entry.path().extension() == ".yaml" && entry.path().parent_path().filename() != "models")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Loaded load_shipped(const std::string& name) {
  return load((source_folder() / "configs" / name).string(), {{}, false});
}

TEST(Shipped, EveryConfigLoadsBuildsAndGoesRound) {
  ASSERT_GE(shipped().size(), 8u);
  for (const fs::path& file : shipped()) {
    SCOPED_TRACE(file);
    const Loaded loaded = load(file.string(), {{}, false});
    const Loaded again = load_text(loaded.effective_yaml, "again.yaml", {{}, false});
    EXPECT_EQ(loaded.effective_yaml, again.effective_yaml);
    EXPECT_EQ(model::describe(model::build_network(loaded.config.model)),
              model::describe(model::build_network(again.config.model)));
    for (const int ranks : {1, 2, 3, 4}) EXPECT_EQ(check_ranks(loaded.config, ranks), Lines{}) << ranks;
  }
}

TEST(Shipped, TheReferenceIsUpToDate) {
  const std::string text = read_file(source_folder() / "configs/reference.yaml");
  EXPECT_TRUE(text == reference()) << "configs/reference.yaml is out of date; write it anew with\n"
                                      "  muster check --print-reference > configs/reference.yaml";
}

TEST(Shipped, TheReferenceHoldsTheDefaults) {
  const Loaded loaded = load_shipped("reference.yaml");
  const Loaded bare = load_quietly(
      "run: {epochs: 10}\nparallel: {lr_scaling: none}\ndata: {train: data/fashion_mnist.h5, batch: 128}\n"
      "model: {input: [1, 28, 28], layers: [flatten, {dense: {units: 10}}]}\n");
  EXPECT_EQ(loaded.effective_yaml, bare.effective_yaml);
}

TEST(Shipped, TwoLayerIsTheTextbooksNetwork) {
  const auto network = model::build_network(load_shipped("two_layer.yaml").config.model);
  EXPECT_EQ(network.input, (Shape{3}));
  EXPECT_EQ(network.output, (Shape{3}));
  EXPECT_EQ(network.parameter_count(), 2 * (3 * 3 + 3));
}

TEST(Shipped, TheNetworksHaveTheirSizes) {
  const auto count = [](const std::string& name) {
    return model::build_network(load_shipped(name).config.model).parameter_count();
  };
  EXPECT_EQ(count("fashion_mnist/mlp.yaml"), 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
  // convolutions without bias, batch norms of 2 per channel, dense 3136 -> 128 without bias, dense 128 -> 10
  EXPECT_EQ(count("fashion_mnist/cnn.yaml"),
            9 * (32 + 32 * 32 + 32 * 64 + 64 * 64) + 2 * (32 + 32 + 64 + 64) + 3136 * 128 + 2 * 128 + 128 * 10 + 10);
  EXPECT_LT(count("fashion_mnist/cnn.yaml"), 500'000);
  // He et al. 2016: 0.27 million; here plus two 1x1 shortcuts with batch norm
  EXPECT_EQ(count("cifar10/resnet20.yaml"), 9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64) +
                                                2 * (7 * 16 + 6 * 32 + 6 * 64) + (16 * 32 + 32 * 64) + 2 * (32 + 64) +
                                                64 * 10 + 10);
}

TEST(Shipped, ModelFilesAreReadRelativeToTheConfigAndKeepTheirPlaces) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("muster-config-test-{}", getpid());
  fs::create_directories(folder / "sub");
  write_file_atomic(folder / "sub/net.yaml", "input: [4]\nlayers:\n  - dense: {units: 3}\n");
  write_file_atomic(folder / "bad.yaml", "model:\n  input: [4]\n  layers:\n    - dense: {unit: 3}\n");
  const auto config_with = [&](const std::string& model) {
    write_file_atomic(folder / "c.yaml", "run: {steps: 1}\ndata: {train: a.h5, batch: 4}\nmodel: " + model + "\n");
    return (folder / "c.yaml").string();
  };
  const auto message = [&](const std::string& model) -> std::string {
    try {
      load(config_with(model), {{}, false});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string at = folder.string();
  const auto layers =
      load(config_with("{file: sub/net.yaml}"), {{"model.loss.label_smoothing=0.2"}, false}).config.model;
  EXPECT_EQ(layers.layers.at(0).where, at + "/sub/net.yaml:3:5");
  EXPECT_EQ(layers.loss.label_smoothing, 0.2f);
  EXPECT_EQ(message("{file: bad.yaml}"),
            at + "/bad.yaml:4:14: model.layers[0].dense.units: missing; expected integer >= 1\n" + at +
                "/bad.yaml:4:15: model.layers[0].dense.unit: unknown key; did you mean 'units'?");
  EXPECT_EQ(message("{file: sub/net.yaml, input: [4]}"),
            at + "/c.yaml:3:29: model.input: excludes model.file: write it into sub/net.yaml");
  EXPECT_NE(message("{file: nothing.yaml}").find(at + "/c.yaml:3:15: model.file: "), std::string::npos)
      << message("{file: nothing.yaml}");
  EXPECT_NE(message("{file: nothing.yaml}").find(at + "/nothing.yaml"), std::string::npos);
  EXPECT_EQ(message("{file: [x]}"), at + "/c.yaml:3:15: model.file: expected a file name, found the list [x]");
  const auto replaced =
      load(config_with("{input: [9], layers: [{dense: {units: 2}}]}"), {{"model.file=" + at + "/sub/net.yaml"}, false})
          .config.model;
  EXPECT_EQ(replaced.input, (Shape{4}));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace muster::config::testing
