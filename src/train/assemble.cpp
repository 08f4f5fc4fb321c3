#include <muster/train/assemble.hpp>

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>
#include <muster/dataset/sampler.hpp>

#include <algorithm>

namespace muster::train {
namespace {

constexpr std::int64_t default_grains = 8;

bool is_bitwise(const Config& config) { return config.run.reproducible == "bitwise"; }

std::vector<std::int64_t> sizes_of_batches(std::int64_t dataset_size, std::int64_t batch) {
  std::vector<std::int64_t> sizes;
  if (dataset_size >= batch) sizes.push_back(batch);
  if (dataset_size % batch != 0) sizes.push_back(dataset_size % batch);
  return sizes;
}

std::unique_ptr<parallel::GradientReducer> make_reducer(const Config& config, comm::Communicator& data,
                                                        const parallel::GrainPlan& plan, std::int64_t elements,
                                                        int threads) {
  const parallel::ReducerOptions options{
      elements, config.parallel.wire == "bf16" ? parallel::Wire::bf16 : parallel::Wire::fp32, threads};
  if (config.parallel.strategy == "multi_worker_mirrored") return parallel::make_multi_worker(data, plan, options);
  return parallel::make_mirrored(data, plan, options);
}

}  // namespace

parallel::GrainPlan grain_plan(const Config& config, const model::Network& network, int replicas, int replica) {
  parallel::GrainPlan plan;
  plan.replicas = replicas;
  plan.replica = replica;
  plan.unit = network.batch_norm_group();
  const std::int64_t units = (config.data.batch + plan.unit - 1) / plan.unit;
  if (!is_bitwise(config)) plan.grains = replicas * config.run.accumulate;
  else plan.grains = config.parallel.grains > 0 ? config.parallel.grains : std::min(default_grains, units);
  return plan;
}

int thread_count(const Config& config, int cores) {
  if (config.device.threads > 0) return config.device.threads;
  return is_bitwise(config) ? 1 : std::max(cores, 1);
}

void check_no_decay(const optim::OptimizerOptions& options, const model::Network& network) {
  if (options.no_decay == optim::OptimizerOptions{}.no_decay) return;
  for (const std::string& ending : options.no_decay)
    if (std::ranges::none_of(network.params, [&](const auto& param) { return param.name.ends_with(ending); }))
      fail(ExitCode::usage, "optimizer: no_decay names '{}', but no parameter's name ends so (the first is '{}')",
           ending, network.params.empty() ? "" : network.params.front().name);
}

TrainableModel::TrainableModel(const Config& given, const parallel::GridPlace& place, std::int64_t dataset_size,
                               int thread_number, const std::vector<device::TensorDesc>& layouts)
    : config(given),
      threads(thread_number),
      whole(model::build_network(given.model)),
      cut(model::cut_stages(whole, place.stages)),
      network(model::stage_network(whole, cut, place.stage)),
      plan(grain_plan(given, whole, place.replicas, place.replica)),
      batch_sizes(sizes_of_batches(dataset_size, given.data.batch)) {
  device::DeviceOptions device_options = config.device;
  device_options.threads = threads;
  backend = device::make_backend(device_options);
  if (!backend->has_host_memory() && config.parallel.strategy == "parameter_server")
    fail(ExitCode::usage,
         "device.kind: with parallel.strategy: parameter_server workers and servers compute on the CPU, found {}; use "
         "cpu, or mirrored or multi_worker_mirrored",
         backend->name());

  if (!backend->has_host_memory() && place.stages > 1)
    fail(ExitCode::usage, "parallel.grid.pipeline: {} stages need device.kind: cpu, found {}; use 1", place.stages,
         backend->name());
  if (!backend->has_host_memory() && config.parallel.shard != "none")
    fail(ExitCode::usage, "parallel.shard: {} needs device.kind: cpu, found {}; use none", config.parallel.shard,
         backend->name());

  model::ProgramOptions options;
  options.is_deterministic = is_bitwise(config);
  options.threads = threads;
  options.bucket_elements = std::max<std::int64_t>(config.parallel.bucket_kib * 1024 / 4, 1);
  StageOfPipeline pipeline{place.stages, place.stage};
  if (place.stages > 1) pipeline.kind = parallel::pipeline_kind(config.parallel.pipeline_schedule);
  programs =
      std::make_unique<ReplicaPrograms>(network, *backend, plan, options, batch_sizes.front(), layouts, pipeline);
  store = std::make_unique<model::ParameterStore>(network, *backend, programs->param_descs());

  check_no_decay(config.optimizer, whole);
  optimizer = optim::make_optimizer(config.optimizer, *backend);
  runs = store->runs(config.optimizer.no_decay);
  const bool shards_state = config.parallel.shard == "optimizer";
  shards = parallel::cut_shards(store->elements(), 0, shards_state ? place.replicas : 1,
                                optimizer->needs_whole_parameters(), runs);
  shard = shards.ranges[static_cast<std::size_t>(shards_state ? place.replica : 0)];
  for (std::size_t slot = 0; slot < optimizer->slots().size(); ++slot) {
    state_buffers.push_back(
        backend->allocate(static_cast<std::size_t>(std::max<std::int64_t>(shard.size(), 1)) * sizeof(float)));
    optimizer_state.emplace_back(static_cast<float*>(state_buffers.back()->data()),
                                 static_cast<std::size_t>(shard.size()));
  }
}

void check_layouts(comm::Communicator& ranks, const TrainableModel& model) {
  std::string layout = fmt::format("{}", model.store->elements());
  for (std::size_t p = 0; p < model.network.params.size(); ++p) {
    const Range slice = model.store->slice(static_cast<int>(p));
    const device::TensorDesc& desc = model.store->descs()[p];
    layout += fmt::format(";{} {} {}", slice.begin, slice.end, desc.layout ? desc.layout->describe() : "plain");
  }
  const auto layouts = ranks.all_gather_text(layout, "layouts of the parameters");
  const auto other = std::ranges::find_if(layouts, [&](const std::string& text) { return text != layouts.front(); });
  if (other == layouts.end()) return;
  const auto rank = static_cast<int>(other - layouts.begin());
  fail(
      ExitCode::launch,
      "ranks 0 and {} lay the parameters out differently (different CPUs on {} and {}?); use hosts of one kind, or set "
      "ONEDNN_MAX_CPU_ISA to the least of them",
      rank, ranks.host(0), ranks.host(rank));
}

ReplicaLinks links_over(const Config& config, comm::Communicator& data, int threads) {
  return {{data.size(), data.rank()},
          [&data](const TrainableModel& model) { check_layouts(data, model); },
          [&config, &data, threads](const parallel::GrainPlan& plan, std::int64_t elements) {
            return make_reducer(config, data, plan, elements, threads);
          },
          [&data](const parallel::GrainPlan& plan, std::int64_t width) {
            return parallel::make_statistic_sum(data, plan, width);
          },
          [&data](const std::vector<Range>& shards) { return std::make_unique<parallel::ShardGather>(data, shards); },
          true,
          {},
          nullptr,
          nullptr};
}

ReplicaLinks links_over(const Config& config, parallel::Grid& grid, int threads) {
  ReplicaLinks links = links_over(config, grid.data(), threads);
  links.place = grid.place();
  links.stages = &grid.links();
  links.pipeline = grid.replica();
  return links;
}

namespace {

std::unique_ptr<parallel::TiedGradients> make_tied(const TrainableModel& model, comm::Communicator* pipeline) {
  std::vector<parallel::TiedParameter> params;
  for (const model::ParamInfo& whole : model.whole.params)  // all stages take them in the same order
    for (std::size_t p = 0; p < model.network.params.size(); ++p)
      if (const auto& own = model.network.params[p]; own.name == whole.name && !own.holders.empty())
        params.push_back({model.store->slice(static_cast<int>(p)), own.holders});
  if (params.empty()) return nullptr;
  return std::make_unique<parallel::TiedGradients>(*pipeline, std::move(params), model.store->elements());
}

}  // namespace

Replica::Replica(const Config& given, comm::Communicator& data, std::int64_t dataset_size, int thread_number)
    : Replica(given, links_over(given, data, thread_number), dataset_size, thread_number) {}

Replica::Replica(const Config& given, const ReplicaLinks& over, std::int64_t dataset_size, int thread_number,
                 std::function<void()> between_ops)
    : TrainableModel(given, over.place, dataset_size, thread_number, over.layouts),
      links(over.stages ? *over.stages : alone) {
  if (over.check) over.check(*this);
  reducer = over.reducer(plan, store->elements() + control_elements);
  accumulator = std::make_unique<parallel::GrainAccumulator>(plan, *reducer, threads);
  gradients = std::make_unique<Gradients>(*backend, *reducer, store->elements());
  programs->bind(*store, gradients->written(), batch_sizes);
  statistics = over.statistics(plan, std::max<std::int64_t>(programs->lead().widest_statistics(), 1));
  own_runs = parallel::runs_of_shard(shard, runs);
  if (is_sharded()) gather = over.gather(shards.ranges);
  tied = make_tied(*this, over.pipeline);
  step = std::make_unique<Step>(StepParts{*programs, *store, *reducer, *accumulator, *gradients, *statistics, links,
                                          tied.get(), *optimizer, optimizer_state, own_runs, shard, gather.get(), plan,
                                          config.run.seed, over.has_whole_sum ? config.optimizer.clip_norm : 0.0,
                                          threads, std::move(between_ops)});
}

void Replica::close() {
  statistics->close();
  reducer->close();
}

std::vector<std::vector<float>> Replica::gather_optimizer_state() {
  std::vector<std::vector<float>> gathered;
  if (is_sharded())
    for (const std::span<float>& slot : optimizer_state) gathered.push_back(gather->to_root(slot));
  return gathered;
}

MemoryUse Replica::memory(std::size_t evaluation) const {
  const auto bytes = [](std::int64_t floats) { return floats * static_cast<std::int64_t>(sizeof(float)); };
  const model::Program& lead = programs->lead();  // the largest micro-batch, hence the largest messages
  MemoryUse use;
  use.stage = links.stage();
  use.parameters = bytes(store->elements());
  use.gradients = bytes(store->elements() * reducer->partials());
  use.optimizer = bytes(shards.largest() * static_cast<std::int64_t>(optimizer_state.size()));
  use.activations = static_cast<std::int64_t>(programs->arena_bytes());
  use.evaluation = static_cast<std::int64_t>(evaluation);
  use.tied = tied ? static_cast<std::int64_t>(tied->bytes()) : 0;
  use.messages =
      static_cast<std::int64_t>(links.full_buffer_bytes({lead.leaving_elements(), lead.entering_gradient_elements(),
                                                         lead.entering_elements(), lead.leaving_gradient_elements()}));
  return use;
}

MemoryUse largest_use(comm::Communicator& world, const MemoryUse& own) {
  std::vector<MemoryUse> all(static_cast<std::size_t>(world.size()));
  world.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)), "memory of all ranks");
  return *std::ranges::max_element(all, {}, &MemoryUse::total);
}

namespace {

std::string describe(const MemoryUse& use, int stages) {
  const auto text = [](std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  std::string line = stages > 1 ? fmt::format("of stage {}, the largest: ", use.stage) : "";
  line += fmt::format("parameters {}, gradients {}, optimizer {}, activations {}", text(use.parameters),
                      text(use.gradients), text(use.optimizer), text(use.activations));
  if (use.evaluation > 0) line += fmt::format(", evaluation {} more", text(use.evaluation));
  if (use.tied > 0) line += fmt::format(", sums of tied weights {}", text(use.tied));
  if (use.messages > 0) line += fmt::format(", messages {}", text(use.messages));
  return line + " per rank";
}

}  // namespace

std::string Replica::describe_reduction() const {
  if (cut.stages() == 1) return reducer->describe();
  if (plan.replicas == 1)
    return fmt::format("one replica of {} stages, nothing to sum{}", cut.stages(),
                       tied ? " but tied weights between stages" : "");
  return fmt::format("{} replicas of {} stages, each stage over {}", plan.replicas, cut.stages(), reducer->describe());
}

std::vector<std::string> Replica::describe(const MemoryUse& largest) const {
  std::vector<std::string> lines{
      fmt::format("network     {} layers, {} parameters, {:.3g} GFLOP per sample forward", whole.nodes.size(),
                  whole.parameter_count(), whole.forward_flops() * 1e-9),
      fmt::format("device      {}, {} thread{} per rank", backend->describe(), threads, threads == 1 ? "" : "s"),
      fmt::format("batch       {} in {} grain{}, {} replica{}", config.data.batch, plan.grains,
                  plan.grains == 1 ? "" : "s", plan.replicas, plan.replicas == 1 ? "" : "s"),
      fmt::format("reduction   {}", describe_reduction()),
      fmt::format("memory      {}", train::describe(largest, cut.stages())),
  };
  if (cut.stages() > 1) {
    const std::string& schedule = config.parallel.pipeline_schedule;
    const auto times = parallel::pipeline_times(parallel::pipeline_kind(schedule), config.run.accumulate, cut.flops);
    lines.push_back(fmt::format("pipeline    {}, {} micro-batches, bubble {:.1f} % by counted FLOPs", schedule,
                                config.run.accumulate, 100 * times.bubble_share));
    for (const std::string& stage : model::describe(whole, cut)) lines.push_back("            " + stage);
  }
  if (is_sharded())
    lines.push_back(fmt::format("shards      optimizer state in {} parts, the largest {:.2f} times the mean",
                                shards.ranges.size(), shards.imbalance()));
  return lines;
}

}  // namespace muster::train
