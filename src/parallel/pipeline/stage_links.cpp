#include <muster/parallel/pipeline/stage_links.hpp>

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>

#include <algorithm>
#include <utility>

namespace muster::parallel {
namespace {

constexpr int values_tag = 0, gradients_tag = 1;

const std::string step_sums = "sums of a step over the stages";

/// Returns the seconds it took.
double wait_for(comm::Communicator& ranks, const comm::RequestPtr& request, int peer, const std::string& what) {
  const Stopwatch watch;
  ranks.wait_all(std::span(&request, 1), std::span(&peer, 1), what);
  return watch.elapsed_s();
}

}  // namespace

Outbox::Outbox(comm::Communicator& ranks, int peer, int tag, std::size_t depth, std::string what)
    : ranks_(&ranks), peer_(peer), tag_(tag), what_(std::move(what)), buffers_(depth), requests_(depth) {}

void Outbox::wait(std::size_t slot) {
  if (!requests_[slot]) return;
  waited_s_ += wait_for(*ranks_, requests_[slot], peer_, what_);
  requests_[slot].reset();
}

std::span<float> Outbox::room(std::int64_t elements) {
  MUSTER_CHECK(ranks_ != nullptr, "a message to nobody");
  wait(next_);
  elements_ = elements;
  auto& buffer = buffers_[next_];
  buffer.resize(std::max(buffer.size(), static_cast<std::size_t>(elements)));
  return std::span(buffer).first(static_cast<std::size_t>(elements));
}

void Outbox::send() {
  if (elements_ > 0) {  // a value without a gradient: both sides know, nothing is sent
    const std::span<const float> message = std::span(buffers_[next_]).first(static_cast<std::size_t>(elements_));
    requests_[next_] = ranks_->send(comm::bytes_of(message), peer_, tag_);
  }
  next_ = (next_ + 1) % buffers_.size();
}

void Outbox::progress() {
  for (const comm::RequestPtr& request : requests_)
    if (request) request->test();
}

std::size_t Outbox::buffer_bytes() const {
  std::size_t bytes = 0;
  for (const auto& buffer : buffers_) bytes += buffer.size() * sizeof(float);
  return bytes;
}

void Outbox::finish() {
  for (std::size_t slot = 0; slot < requests_.size(); ++slot) wait(slot);
}

Inbox::Inbox(comm::Communicator& ranks, int peer, int tag, std::string what)
    : ranks_(&ranks), peer_(peer), tag_(tag), what_(std::move(what)) {}

void Inbox::start(std::int64_t elements) {
  auto& buffer = buffers_[next_];
  buffer.resize(std::max(buffer.size(), static_cast<std::size_t>(elements)));
  request_ = ranks_->receive(comm::bytes_of(std::span(buffer).first(static_cast<std::size_t>(elements))), peer_, tag_);
}

std::span<const float> Inbox::take(std::int64_t elements, std::int64_t following) {
  MUSTER_CHECK(ranks_ != nullptr, "a message from nobody");
  if (elements == 0) return {};
  if (!request_) start(elements);
  waited_s_ += wait_for(*ranks_, request_, peer_, what_);
  request_.reset();
  const std::span<const float> message = std::span(buffers_[next_]).first(static_cast<std::size_t>(elements));
  next_ = 1 - next_;
  if (following > 0) start(following);
  return message;
}

bool Inbox::progress() { return request_ && request_->test(); }

StageLinks::StageLinks(comm::Communicator& replica)
    : replica_(&replica),
      stages_(replica.size()),
      stage_(replica.rank()),
      all_(static_cast<std::size_t>(replica.size())) {
  // As many unread messages as stages: in 1f1b a stage is at most so far ahead of its neighbours.
  const auto depth = static_cast<std::size_t>(stages_);
  const auto name = [](const char* what, int stage) { return std::string(what) + std::to_string(stage); };
  if (!is_last()) {
    values_out = Outbox(replica, stage_ + 1, values_tag, depth, name("values to stage ", stage_ + 1));
    gradients_in = Inbox(replica, stage_ + 1, gradients_tag, name("gradients from stage ", stage_ + 1));
  }
  if (!is_first()) {
    values_in = Inbox(replica, stage_ - 1, values_tag, name("values from stage ", stage_ - 1));
    gradients_out = Outbox(replica, stage_ - 1, gradients_tag, depth, name("gradients to stage ", stage_ - 1));
  }
}

void StageLinks::progress() {
  values_out.progress();
  gradients_out.progress();
  values_in.progress();
  gradients_in.progress();
}

std::size_t StageLinks::buffer_bytes() const {
  return values_out.buffer_bytes() + gradients_out.buffer_bytes() + values_in.buffer_bytes() +
         gradients_in.buffer_bytes();
}

std::size_t StageLinks::full_buffer_bytes(const Messages& largest) const {
  const std::int64_t unread = stages_;
  const std::int64_t ahead = is_last() ? 0 : unread * largest.values_out + 2 * largest.gradients_in;
  const std::int64_t behind = is_first() ? 0 : unread * largest.gradients_out + 2 * largest.values_in;
  return static_cast<std::size_t>(ahead + behind) * sizeof(float);
}

void StageLinks::finish() {
  values_out.finish();
  gradients_out.finish();
}

void StageLinks::add_up(StageSums& sums) {
  if (stages_ == 1) return;
  const Stopwatch watch;
  replica_->all_gather(std::as_bytes(std::span(&sums, 1)), std::as_writable_bytes(std::span(all_)), step_sums);
  waited_s_ += watch.elapsed_s();
  sums = {};
  for (const StageSums& of_stage : all_) {
    sums.squared_norm += of_stage.squared_norm;
    sums.stop_requests += of_stage.stop_requests;
    sums.bad_losses += of_stage.bad_losses;
    sums.rows += of_stage.rows;
    sums.loss_units += of_stage.loss_units;
    sums.correct += of_stage.correct;
    sums.top_k_correct += of_stage.top_k_correct;
  }
}

double StageLinks::waited_s() const {
  return waited_s_ + values_out.waited_s() + gradients_out.waited_s() + values_in.waited_s() + gradients_in.waited_s();
}

}  // namespace muster::parallel
