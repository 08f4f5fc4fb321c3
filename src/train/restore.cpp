#include <muster/train/restore.hpp>

#include <muster/base/error.hpp>
#include <muster/train/inference.hpp>
#include <muster/train/state.hpp>

#include <filesystem>

namespace muster::train {

std::unique_ptr<TrainedNetwork> restore_network(const std::string& run, const std::vector<std::string>& sets,
                                                std::int64_t step, int cores) {
  const std::filesystem::path directory(run);
  if (!std::filesystem::exists(directory / "config.yaml"))
    fail(ExitCode::usage, "{}: expected the directory of a run, found no config.yaml in it; muster train makes one",
         run);
  auto trained = std::make_unique<TrainedNetwork>();
  trained->loaded = config::load((directory / "config.yaml").string(), {sets, false});
  const CheckpointState state = step >= 0 ? load_checkpoint(directory / "checkpoints" / fmt::format("step-{:08}", step))
                                          : load_newest_checkpoint(directory);
  const Config& config = trained->loaded.config;
  trained->step = state.step;
  trained->threads = thread_count(config, cores);
  trained->network = model::build_network(config.model);
  device::DeviceOptions options = config.device;
  options.threads = trained->threads;
  trained->backend = device::make_backend(options);

  model::ProgramOptions program;  // made only to learn which layouts of the weights evaluation likes
  program.rows = test_batch_rows(config);
  program.is_training = false;
  program.threads = trained->threads;
  const model::Program shape(trained->network, *trained->backend, program, {});
  trained->store = std::make_unique<model::ParameterStore>(trained->network, *trained->backend, shape.param_descs());
  restore_weights(state, trained->network, *trained->store);
  return trained;
}

}  // namespace muster::train
