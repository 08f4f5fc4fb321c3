#include <muster/train/programs.hpp>

#include <muster/base/check.hpp>

#include <algorithm>
#include <map>

namespace muster::train {
namespace {

/// Rows of the largest of these grains.
std::int64_t largest_grain(const Range& grains, const parallel::GrainPlan& plan, std::int64_t batch) {
  std::int64_t rows = 0;
  for (std::int64_t grain = grains.begin; grain < grains.end; ++grain)
    rows = std::max(rows, plan.rows_of_grain(grain, batch).size());
  return rows;
}

}  // namespace

ReplicaPrograms::ReplicaPrograms(const model::Network& network, device::Backend& backend,
                                 const parallel::GrainPlan& plan, const model::ProgramOptions& options,
                                 std::int64_t batch, std::vector<device::TensorDesc> layouts,
                                 const StageOfPipeline& pipeline)
    : network_(network), backend_(backend), plan_(plan), options_(options), pipeline_(pipeline) {
  const std::int64_t own = largest_grain(plan_.grains_of(plan_.replica), plan_, batch);
  const std::int64_t largest = largest_grain({0, plan_.grains}, plan_, batch);
  MUSTER_CHECK(own > 0, "replica {} of {} has no rows of a full batch of {}", plan_.replica, plan_.replicas, batch);
  if (layouts.empty() && own != largest) {
    options_.rows = largest;
    layouts = model::Program(network_, backend_, options_, {}).param_descs();
  }
  options_.rows = own;
  lead_ = std::make_unique<model::Program>(network_, backend_, options_, layouts);
}

void ReplicaPrograms::bind(model::ParameterStore& store, std::span<float> gradients,
                           const std::vector<std::int64_t>& batch_sizes) {
  store_ = &store;
  gradients_ = gradients;
  lead_->bind(store, gradients);
  const bool is_one_wave = network_.has_global_statistics();
  for (std::int64_t batch : batch_sizes) {
    const Range grains = plan_.grains_of(plan_.replica);
    BatchPlan plan{plan_.rows_of_replica(plan_.replica, batch),
                   {},
                   parallel::pipeline_schedule(pipeline_.kind, pipeline_.stages, pipeline_.stage,
                                               is_one_wave ? 1 : grains.size())};
    const auto in_flight = static_cast<std::size_t>(parallel::most_in_flight(plan.schedule));
    std::map<std::int64_t, std::size_t> used;  // instances of each size so far
    for (std::int64_t grain = grains.begin; grain < grains.end; ++grain) {
      MicroBatch micro{grain, plan_.rows_of_grain(grain, batch), nullptr, {}};
      std::size_t instance = used[micro.rows.size()]++;
      if (!is_one_wave) instance %= in_flight;  // the earliest wave in flight is through by then
      if (!micro.rows.empty()) micro.program = &program(micro.rows.size(), instance);
      if (plan.waves.empty() || !is_one_wave) plan.waves.emplace_back();
      plan.waves.back().push_back(micro);
    }
    plans_.emplace(batch, std::move(plan));
  }
}

model::Program& ReplicaPrograms::program(std::int64_t rows, std::size_t instance) {
  const bool is_lead_size = rows == lead_->rows();
  if (is_lead_size && instance == 0) return *lead_;
  auto& instances = others_[rows];
  const std::size_t index = is_lead_size ? instance - 1 : instance;
  if (index == instances.size()) {
    model::ProgramOptions options = options_;
    options.rows = rows;
    instances.push_back(std::make_unique<model::Program>(network_, backend_, options, store_->descs()));
    instances.back()->bind(*store_, gradients_);
  }
  return *instances[index];
}

BatchPlan& ReplicaPrograms::plan_for(std::int64_t batch) {
  const auto found = plans_.find(batch);
  MUSTER_CHECK(found != plans_.end(), "no plan for a batch of {}", batch);
  return found->second;
}

std::size_t ReplicaPrograms::arena_bytes() const {
  std::size_t bytes = lead_->arena_bytes();
  for (const auto& [rows, instances] : others_)
    for (const auto& instance : instances) bytes += instance->arena_bytes();
  return bytes;
}

std::int64_t ReplicaPrograms::target_bytes() const { return network_.targets_per_sample() * 4; }

}  // namespace muster::train
