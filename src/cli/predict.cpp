// `muster predict`: a run's network on the samples of an HDF5 file, one CSV line per sample (and position, where it
// tells a class for each); or on a text, which it continues. Runs as one process.
#include "cli/command.hpp"
#include "cli/session_command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/base/log.hpp>
#include <muster/train/generate.hpp>
#include <muster/train/inference.hpp>
#include <muster/train/restore.hpp>
#include <muster/train/together.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <span>
#include <sstream>
#include <thread>

namespace muster::cli {
namespace po = boost::program_options;
namespace {

void append_values(std::ostream& out, std::span<const double> values) {
  for (double v : values) out << ',' << fmt::format("{:.7g}", v);
  out << '\n';
}

/// ",class,probability..." by softmax.
void append_classes(std::ostream& out, std::span<const float> logits) {
  std::vector<double> row(logits.begin(), logits.end());
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double& v : row) sum += v = std::exp(v - largest);
  for (double& v : row) v /= sum;
  out << ',' << std::max_element(row.begin(), row.end()) - row.begin();
  append_values(out, row);
}

/// A line "index,class,probability..." for a class output, "index,position,class,probability..." for each position of
/// one that has several, "index,value..." for any other.
void append_sample(std::ostream& out, std::int64_t index, std::span<const float> output,
                   const model::Network& network) {
  if (network.loss.kind != device::LossSpec::Kind::softmax_cross_entropy) {
    out << index;
    return append_values(out, std::vector<double>(output.begin(), output.end()));
  }
  const auto classes = static_cast<std::size_t>(network.classes());
  const std::size_t positions = output.size() / classes;
  for (std::size_t position = 0; position < positions; ++position) {
    out << index;
    if (network.output.rank() > 1) out << ',' << position;
    append_classes(out, output.subspan(position * classes, classes));
  }
}

std::string predict(train::TrainedNetwork& trained, std::unique_ptr<dataset::Dataset> data) {
  const auto width = static_cast<std::size_t>(trained.network.output.elements());
  if (data->input_shape() != trained.network.input)
    fail(ExitCode::data, "{}: samples have shape {}, the network expects {}", data->describe(),
         data->input_shape().text(), trained.network.input.text());
  train::Inference inference(trained.loaded.config, trained.network, *trained.backend, *trained.store, trained.threads);
  const auto queue = inference.open(std::move(data), 0, 1);

  std::ostringstream text;
  std::vector<float> output;
  while (const dataset::Batch* batch = queue->next()) {
    dataset::Batch inputs = *batch;
    inputs.targets = nullptr;  // the file need not hold any
    const auto rows = static_cast<std::size_t>(batch->rows.size());
    output.resize(rows * width);
    inference.forward(inputs).read_output(output.data());
    for (std::size_t r = 0; r < rows; ++r)
      append_sample(text, batch->position.first + static_cast<std::int64_t>(r),
                    std::span(output).subspan(r * width, width), trained.network);
  }
  return text.str();
}

std::string continue_text(train::TrainedNetwork& trained, const Arguments& arguments) {
  train::GenerateOptions options;
  options.prompt = arguments.text("prompt");
  options.tokens = arguments.integer("tokens");
  options.temperature = arguments.number("temperature");
  options.top_k = arguments.integer("top-k");
  options.seed = static_cast<std::uint64_t>(arguments.integer("seed"));
  const auto vocabulary = dataset::parse_vocabulary(dataset::read_vocabulary(trained.loaded.config.data));
  return options.prompt + train::generate(trained, *vocabulary, options) + "\n";
}

std::string predict_file(train::TrainedNetwork& trained, const Arguments& arguments) {
  const auto& data = trained.loaded.config.data;
  dataset::SourceOptions source;
  source.files = {arguments.text("[INPUT]")};
  source.inputs =
      arguments.has("inputs") ? arguments.text("inputs") : (data.test.is_set() ? data.test.inputs : data.train.inputs);
  return predict(trained, dataset::open_inputs(source));
}

/// What is given for the other of the two ways to predict would do nothing.
void check_flags(const Arguments& arguments) {
  const bool is_text = arguments.has("prompt");
  const auto refuse = [&](std::initializer_list<const char*> flags, const char* owner) {
    for (const char* flag : flags)
      if (arguments.is_given(flag))
        fail(ExitCode::usage, "predict: --{} means nothing without {}; leave it out", flag, owner);
  };
  if (is_text) refuse({"inputs"}, "INPUT");
  else refuse({"tokens", "temperature", "top-k", "seed"}, "--prompt");
  if (arguments.integer("seed") < 0)
    fail(ExitCode::usage, "predict: --seed: expected a number >= 0, found {}", arguments.integer("seed"));
}

void predict_to_output(const Arguments& arguments) {
  if (arguments.integer("step") < -1)
    fail(ExitCode::usage, "--step: expected a step, found {}", arguments.integer("step"));
  if (arguments.has("prompt") == arguments.has("[INPUT]"))
    fail(ExitCode::usage, "predict: expected INPUT or --prompt, found {}; see muster predict --help",
         arguments.has("prompt") ? "both" : "neither");
  check_flags(arguments);
  const auto trained = train::restore_network(arguments.text("RUN"), arguments.list("set"), arguments.integer("step"),
                                              static_cast<int>(std::thread::hardware_concurrency()));
  const std::string text =
      arguments.has("prompt") ? continue_text(*trained, arguments) : predict_file(*trained, arguments);
  if (!arguments.has("output")) {
    std::cout << text;
    return;
  }
  const std::filesystem::path output = arguments.text("output");
  if (std::filesystem::exists(output) && !std::filesystem::is_regular_file(output))
    fail(ExitCode::usage, "--output: expected a file or a free name, found {}", output.string());
  write_file_atomic(output, text, static_cast<int>(ExitCode::data));
}

}  // namespace

int run_predict(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("set", po::value<std::vector<std::string>>()->composing(),
                      "key=value, overrides the run's config; may repeat")(
      "step", po::value<int>()->default_value(-1), "the checkpoint of this step instead of the newest")(
      "inputs", po::value<std::string>(),
      "path of the input dataset inside the file (default: as in the run's data.test or data.train)")(
      "output", po::value<std::string>(), "write the CSV there instead of to the terminal")(
      "prompt", po::value<std::string>(), "a text to continue, in place of INPUT")(
      "tokens", po::value<int>()->default_value(100), "--prompt: tokens to add")(
      "temperature", po::value<double>()->default_value(1.0), "--prompt: 0: always the likeliest token")(
      "top-k", po::value<int>()->default_value(0), "--prompt: draw among the k likeliest tokens; 0: among all")(
      "seed", po::value<int>()->default_value(0), "--prompt: of the draws");
  const Arguments arguments("predict", {"RUN", "[INPUT]"}, flags, words);
  if (arguments.is_help()) return 0;
  return with_session(
      [&](comm::Session& session) {
        if (session.world().size() > 1)
          throw train::AgreedError(
              ExitCode::launch,
              session.world().rank() > 0
                  ? ""
                  : fmt::format("predict runs on one rank, found {}; start it without mpirun", session.world().size()));
        log::set_terminal(arguments.has("output"));  // else the terminal gets the predictions alone
        predict_to_output(arguments);
        return ExitCode::done;
      },
      [] { return std::string(); });
}

}  // namespace muster::cli
