#include "parallel/data/exchange.hpp"

#include "parallel/data/bfloat16.hpp"

#include <algorithm>
#include <cstring>

namespace muster::parallel {
namespace {

const std::byte* element(const Part& part, std::int64_t index) {
  return static_cast<const std::byte*>(part.data) + index * bytes_of(part.encoding);
}

}  // namespace

ExchangePlan::ExchangePlan(const GrainPlan& plan, const Topology& topology, bool bf16) : is_bf16(bf16) {
  std::vector<Subtree> all;
  for (const ReplicaNode& node : topology.nodes) {
    auto& list = encodings.emplace_back();
    for (const NodePart& part : node.parts) {
      // The sum of rounded contributions is not itself rounded: it must travel whole.
      list.push_back(bf16 && part.is_raw() ? Encoding::bf16 : Encoding::fp32);
      all.push_back(part.range);
    }
  }
  total = TreeSum(plan.grains, all);
}

std::int64_t ExchangePlan::message_bytes(int node, std::int64_t elements) const {
  std::int64_t bytes = 0;
  for (Encoding encoding : encodings[static_cast<std::size_t>(node)]) bytes += elements * bytes_of(encoding);
  return bytes;
}

void Exchange::start(Range bucket, const std::vector<Part>& own, float* result, int tag, int threads) {
  const int nodes = plan_.nodes();
  const auto n = static_cast<std::size_t>(nodes);
  bucket_ = bucket;
  own_ = own;
  result_ = result;
  tag_ = tag;
  threads_ = threads;
  is_summed_ = false;
  for (auto* requests : {&sends_, &contributions_, &results_, &result_sends_}) {
    requests->clear();
    requests->resize(n);
  }
  outgoing_.resize(n);
  incoming_.resize(n);
  incoming_results_.resize(n);

  const int me = leaders_.rank();
  const std::int64_t mine = slice_of(bucket_, me, nodes).size();
  for (int node = 0; node < nodes; ++node) {
    if (node == me) continue;
    const auto i = static_cast<std::size_t>(node);
    if (const std::int64_t bytes = plan_.message_bytes(node, mine); bytes > 0) {
      incoming_[i].resize(static_cast<std::size_t>(bytes));
      contributions_[i] = leaders_.receive(incoming_[i], node, tag_);
    }
    const Range slice = slice_of(bucket_, node, nodes);
    if (slice.empty()) continue;
    const auto elements = static_cast<std::size_t>(slice.size());
    if (plan_.is_bf16) {
      incoming_results_[i].resize(elements);
      results_[i] = leaders_.receive(std::as_writable_bytes(std::span(incoming_results_[i])), node, tag_ + 1);
    } else {
      results_[i] =
          leaders_.receive(std::as_writable_bytes(std::span(result_ + slice.begin, elements)), node, tag_ + 1);
    }
  }
  send_contributions();
}

void Exchange::send_contributions() {
  const int me = leaders_.rank();
  for (int node = 0; node < plan_.nodes(); ++node) {
    const Range slice = slice_of(bucket_, node, plan_.nodes());
    if (node == me || slice.empty() || own_.empty()) continue;
    sends_[static_cast<std::size_t>(node)] = leaders_.send(pack(node, slice), node, tag_);
  }
}

std::span<const std::byte> Exchange::pack(int node, Range slice) {
  const auto& encodings = plan_.encodings[static_cast<std::size_t>(leaders_.rank())];
  if (own_.size() == 1 && encodings[0] == Encoding::fp32)
    return {element(own_[0], slice.begin), static_cast<std::size_t>(slice.size()) * sizeof(float)};
  auto& message = outgoing_[static_cast<std::size_t>(node)];
  message.resize(static_cast<std::size_t>(plan_.message_bytes(leaders_.rank(), slice.size())));
  std::byte* to = message.data();
  for (std::size_t k = 0; k < own_.size(); ++k) {
    const auto* from = reinterpret_cast<const float*>(element(own_[k], slice.begin));
    if (encodings[k] == Encoding::bf16) encode_bfloat16(from, slice.size(), reinterpret_cast<std::uint16_t*>(to));
    else std::memcpy(to, from, static_cast<std::size_t>(slice.size()) * sizeof(float));
    to += slice.size() * bytes_of(encodings[k]);
  }
  return message;
}

void Exchange::sum_own_slice() {
  const int me = leaders_.rank();
  const Range slice = slice_of(bucket_, me, plan_.nodes());
  is_summed_ = true;
  if (slice.empty()) return;
  std::vector<Part> parts;
  for (int node = 0; node < plan_.nodes(); ++node) {
    const auto i = static_cast<std::size_t>(node);
    const std::byte* from = incoming_[i].data();
    for (std::size_t k = 0; k < plan_.encodings[i].size(); ++k) {
      if (node == me) {
        parts.push_back({element(own_[k], slice.begin), own_[k].encoding});
      } else {
        parts.push_back({from, plan_.encodings[i][k]});
        from += slice.size() * bytes_of(plan_.encodings[i][k]);
      }
    }
  }
  float* to = result_ + slice.begin;
  plan_.total.run(parts, slice.size(), to, plan_.is_bf16, threads_);

  std::span<const std::byte> message = std::as_bytes(std::span(to, static_cast<std::size_t>(slice.size())));
  if (plan_.is_bf16) {
    outgoing_result_.resize(static_cast<std::size_t>(slice.size()));
    encode_bfloat16(to, slice.size(), outgoing_result_.data());  // exact: it is rounded already
    message = std::as_bytes(std::span(outgoing_result_));
  }
  for (int node = 0; node < plan_.nodes(); ++node)
    if (node != me) result_sends_[static_cast<std::size_t>(node)] = leaders_.send(message, node, tag_ + 1);
}

bool Exchange::are_done(std::vector<comm::RequestPtr>& requests) const {
  bool are_all = true;
  for (auto& request : requests) {
    if (request && request->test()) request.reset();
    are_all = are_all && !request;
  }
  return are_all;
}

bool Exchange::advance() {
  if (!is_summed_) {
    are_done(sends_);
    if (!are_done(contributions_)) return false;
    sum_own_slice();
  }
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i] || !results_[i]->test()) continue;
    results_[i].reset();
    if (!plan_.is_bf16) continue;
    const Range slice = slice_of(bucket_, static_cast<int>(i), plan_.nodes());
    decode_bfloat16(incoming_results_[i].data(), slice.size(), result_ + slice.begin);
  }
  const bool are_sent = are_done(sends_) && are_done(result_sends_);
  return are_sent && std::ranges::none_of(results_, [](const auto& request) { return request != nullptr; });
}

void Exchange::add_missing(std::vector<int>& missing) const {
  for (const auto* requests : {&contributions_, &results_, &sends_, &result_sends_})
    for (std::size_t i = 0; i < requests->size(); ++i)
      if ((*requests)[i] && std::ranges::find(missing, static_cast<int>(i)) == missing.end())
        missing.push_back(static_cast<int>(i));
}

}  // namespace muster::parallel
