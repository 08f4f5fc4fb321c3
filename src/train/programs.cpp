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

std::span<std::byte> bytes_of(device::Buffer& buffer) {
  return {static_cast<std::byte*>(buffer.data()), buffer.bytes()};
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
  first_ = std::make_unique<model::Program>(network_, backend_, options_, layouts);
  lead_ = first_.get();
}

void ReplicaPrograms::bind(model::ParameterStore& store, std::span<float> gradients,
                           const std::vector<std::int64_t>& batch_sizes) {
  store_ = &store;
  gradients_ = gradients;
  for (std::int64_t batch : batch_sizes) add_plan(batch);
  MUSTER_CHECK(first_ == nullptr, "no micro-batch has the {} rows of the first program", lead_->rows());
  bind_places();
}

void ReplicaPrograms::add_plan(std::int64_t batch) {
  const Range grains = plan_.grains_of(plan_.replica);
  BatchPlan plan{plan_.rows_of_replica(plan_.replica, batch),
                 {},
                 parallel::pipeline_schedule(pipeline_.kind, pipeline_.stages, pipeline_.stage,
                                             is_one_wave() ? 1 : grains.size())};
  // The earliest wave in flight is through when the next one takes its place; of one wave all are in flight.
  const std::int64_t in_flight = is_one_wave() ? grains.size() : parallel::most_in_flight(plan.schedule);
  for (std::int64_t grain = grains.begin; grain < grains.end; ++grain) {
    MicroBatch micro{grain, plan_.rows_of_grain(grain, batch), nullptr, {}};
    const auto place = static_cast<std::size_t>((grain - grains.begin) % in_flight);
    if (!micro.rows.empty()) micro.program = &program(micro.rows.size(), place);
    if (plan.waves.empty() || !is_one_wave()) plan.waves.emplace_back();
    plan.waves.back().push_back(micro);
  }
  plans_.emplace(batch, std::move(plan));
}

model::Program& ReplicaPrograms::program(std::int64_t rows, std::size_t place) {
  if (places_.size() <= place) places_.resize(place + 1);
  auto& slot = places_[place].programs[rows];
  if (slot) return *slot;
  if (first_ && first_->rows() == rows) {
    slot = std::move(first_);
  } else {
    model::ProgramOptions options = options_;
    options.rows = rows;
    slot = std::make_unique<model::Program>(network_, backend_, options, store_->descs());
  }
  return *slot;
}

void ReplicaPrograms::bind_places() {
  std::size_t scratch_bytes = 64;
  for (Place& place : places_) {
    std::size_t bytes = 64;
    for (const auto& [rows, program] : place.programs) {
      bytes = std::max(bytes, program->arena_bytes());
      scratch_bytes = std::max(scratch_bytes, program->scratch_bytes());
    }
    place.arena = backend_.allocate(bytes);
  }
  scratch_ = backend_.allocate(scratch_bytes);
  for (Place& place : places_)
    for (const auto& [rows, program] : place.programs)
      program->bind(*store_, gradients_, {bytes_of(*place.arena), bytes_of(*scratch_)});
}

model::ProgramMemory ReplicaPrograms::idle_memory() {
  const auto largest = std::ranges::max_element(places_, {}, [](const Place& place) { return place.arena->bytes(); });
  return {bytes_of(*largest->arena), bytes_of(*scratch_)};
}

BatchPlan& ReplicaPrograms::plan_for(std::int64_t batch) {
  const auto found = plans_.find(batch);
  MUSTER_CHECK(found != plans_.end(), "no plan for a batch of {}", batch);
  return found->second;
}

std::size_t ReplicaPrograms::arena_bytes() const {
  std::size_t bytes = scratch_ ? scratch_->bytes() : 0;
  for (const Place& place : places_) bytes += place.arena ? place.arena->bytes() : 0;
  return bytes;
}

std::int64_t ReplicaPrograms::target_bytes() const { return network_.targets_per_sample() * 4; }

}  // namespace muster::train
