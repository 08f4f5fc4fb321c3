// Token ids to rows of a table; the truth for other backends.
#include "device/ref/ref.hpp"

#include <muster/base/error.hpp>

namespace muster::device::ref {
namespace {

class Embedding : public RefOp {
 public:
  Embedding(const OpRequest& request, const EmbeddingSpec& spec) : RefOp(request), spec_(spec) {
    traits_.backward_reads_input[0] = true;
  }

  void forward(int, const RunContext&) override {
    for (std::int64_t i = 0; i < input_elements(); ++i)
      std::copy_n(buffers_.params[0] + token(i) * spec_.width, spec_.width, y() + i * spec_.width);
  }

  void backward(int, const RunContext&) override {
    std::vector<double> sums(static_cast<std::size_t>(spec_.vocabulary * spec_.width), 0.0);
    for (std::int64_t i = 0; i < input_elements(); ++i)
      for (std::int64_t c = 0; c < spec_.width; ++c)
        sums[static_cast<std::size_t>(token(i) * spec_.width + c)] += static_cast<double>(dy()[i * spec_.width + c]);
    std::copy(sums.begin(), sums.end(), buffers_.param_grads[0]);
    if (wants_grad()) std::fill_n(dx(), input_elements(), 0.0f);
  }

 private:
  std::int64_t token(std::int64_t i) const {
    const float id = x()[i];
    if (!(id >= 0 && id < static_cast<float>(spec_.vocabulary)))
      fail(ExitCode::data, "embedding: token id {} at position {} is outside the vocabulary of {}", id, i,
           spec_.vocabulary);
    return static_cast<std::int64_t>(id);
  }
  EmbeddingSpec spec_;
};

}  // namespace

std::unique_ptr<Op> make_embedding(const OpRequest& request, const EmbeddingSpec& spec) {
  return std::make_unique<Embedding>(request, spec);
}

}  // namespace muster::device::ref
