#include <muster/parallel/pipeline/tied_gradients.hpp>

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>

#include <algorithm>
#include <string>

namespace muster::parallel {
namespace {

constexpr int tied_tag = 2;

const std::string tied_exchange = "gradients of tied weights";

}  // namespace

TiedGradients::TiedGradients(comm::Communicator& replica, std::vector<TiedParameter> params, std::int64_t elements)
    : replica_(replica), params_(std::move(params)), summed_(static_cast<std::size_t>(elements)) {
  std::vector<Range> not_counted;
  for (const TiedParameter& param : params_) {
    MUSTER_CHECK(std::ranges::count(param.holders, replica_.rank()) == 1, "stage {} is no holder", replica_.rank());
    for (int holder : param.holders) {
      if (holder == replica_.rank()) continue;
      received_.emplace_back(static_cast<std::size_t>(param.slice.size()));
      peers_.insert(peers_.end(), 2, holder);
    }
    if (param.holders.front() != replica_.rank()) not_counted.push_back(param.slice);
  }
  std::ranges::sort(not_counted, {}, &Range::begin);
  std::int64_t begin = 0;
  for (const Range& slice : not_counted) {
    if (slice.begin > begin) counted_.push_back({begin, slice.begin});
    begin = slice.end;
  }
  if (begin < elements) counted_.push_back({begin, elements});
  requests_.resize(peers_.size());
}

std::size_t TiedGradients::bytes() const {
  std::size_t elements = summed_.size();
  for (const auto& of_another : received_) elements += of_another.size();
  return elements * sizeof(float);
}

double TiedGradients::add_up(std::span<const float> summed) {
  const Stopwatch watch;
  const auto slice_of = [](auto arena, const Range& range) {
    return arena.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
  };
  std::size_t from = 0;
  for (const TiedParameter& param : params_)
    for (int holder : param.holders) {
      if (holder == replica_.rank()) continue;
      requests_[2 * from] = replica_.receive(comm::bytes_of(std::span(received_[from])), holder, tied_tag);
      requests_[2 * from + 1] = replica_.send(comm::bytes_of(slice_of(summed, param.slice)), holder, tied_tag);
      ++from;
    }
  std::ranges::copy(summed, summed_.begin());
  replica_.wait_all(requests_, peers_, tied_exchange);

  from = 0;
  for (const TiedParameter& param : params_) {
    const std::span<float> into = slice_of(std::span(summed_), param.slice);
    std::ranges::fill(into, 0.0f);
    for (int holder : param.holders) {
      const bool is_own = holder == replica_.rank();
      const float* part = is_own ? slice_of(summed, param.slice).data() : received_[from++].data();
      for (std::size_t i = 0; i < into.size(); ++i) into[i] += part[i];
    }
  }
  return watch.elapsed_s();
}

}  // namespace muster::parallel
