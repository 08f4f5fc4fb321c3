// `muster export`: a checkpoint for other programs, its weights as one safetensors file or the network as an ONNX
// model. Runs as one process.
#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/train/gpt2.hpp>
#include <muster/train/onnx.hpp>
#include <muster/train/restore.hpp>

#include <filesystem>
#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

namespace {

/// Parameters and running values, by the names of muster; the parameters alone by those of GPT-2.
std::vector<train::NamedTensor> tensors_of(const train::TrainedNetwork& trained, const std::string& names) {
  std::vector<train::NamedTensor> tensors;
  const auto& params = trained.network.params;
  for (std::size_t p = 0; p < params.size(); ++p)
    tensors.push_back(
        {params[p].name, params[p].shape, trained.store->to_plain(static_cast<int>(p), trained.store->weights())});
  if (names == "gpt2") return train::to_gpt2(trained.network, tensors);
  for (std::size_t s = 0; s < trained.network.states.size(); ++s) {
    const model::StateInfo& running = trained.network.states[s];
    tensors.push_back({running.name, running.shape, trained.store->read_state(static_cast<int>(s))});
  }
  return tensors;
}

}  // namespace

int run_export(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("format", po::value<std::string>()->default_value("auto"),
                      "safetensors, onnx, or auto: as the end of FILE says")(
      "names", po::value<std::string>()->default_value("muster"),
      "muster, or gpt2: names and orders of Hugging Face's GPT-2 files")(
      "step", po::value<int>()->default_value(-1), "the checkpoint of this step instead of the newest")(
      "force", "overwrite an existing file");
  const Arguments arguments("export", {"RUN", "FILE"}, flags, words);
  if (arguments.is_help()) return 0;
  const std::string names = arguments.text("names");
  if (names != "muster" && names != "gpt2")
    fail(ExitCode::usage, "export: --names: expected muster or gpt2, found '{}'", names);
  const std::filesystem::path file = arguments.text("FILE");
  std::string format = arguments.text("format");
  if (format == "auto") format = file.extension() == ".onnx" ? "onnx" : "safetensors";
  if (format != "onnx" && format != "safetensors")
    fail(ExitCode::usage, "export: --format: expected safetensors, onnx or auto, found '{}'", format);
  if (format == "onnx" && names != "muster") fail(ExitCode::usage, "export: --names is for safetensors only");
  if (std::filesystem::exists(file) && !arguments.has("force"))
    fail(ExitCode::usage, "export: {} exists already; replace it with --force", file.string());
  const auto trained = train::restore_network(arguments.text("RUN"), {}, arguments.integer("step"), 1);
  const std::vector<train::NamedTensor> tensors = tensors_of(*trained, names);
  if (format == "onnx") {
    write_file_atomic(file, train::to_onnx(trained->network, tensors));
    std::cout << fmt::format("{}: ONNX opset {}, input {} behind data.transforms, output {} of step {}\n",
                             file.string(), train::onnx_opset, trained->network.input.text(),
                             trained->network.output.text(), trained->step);
    return 0;
  }
  const std::filesystem::path part = file.string() + ".tmp";
  train::write_safetensors(part, tensors);
  std::filesystem::rename(part, file);
  std::cout << fmt::format("{}: {} tensors of step {}\n", file.string(), tensors.size(), trained->step);
  return 0;
}

}  // namespace muster::cli
