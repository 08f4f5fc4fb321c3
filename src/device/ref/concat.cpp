// Branches side by side along the first axis of a sample; the truth for other backends.
#include "device/ref/ref.hpp"

namespace muster::device::ref {
namespace {

class Concat : public RefOp {
 public:
  Concat(const OpRequest& request, const ConcatSpec&) : RefOp(request) {}
  void forward(int, const RunContext&) override {
    each_piece([&](std::size_t k, std::int64_t in, std::int64_t out, std::int64_t count) {
      std::copy_n(x(k) + in, count, y() + out);
    });
  }
  void backward(int, const RunContext&) override {
    each_piece([&](std::size_t k, std::int64_t in, std::int64_t out, std::int64_t count) {
      if (wants_grad(k)) std::copy_n(dy() + out, count, dx(k) + in);
    });
  }

 private:
  /// visit(input, offset in it, offset in the output, elements): one sample's share of one input.
  template <class Visit>
  void each_piece(Visit visit) const {
    std::int64_t out = 0;
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::size_t k = 0; k < request_.inputs.size(); ++k) {
        const std::int64_t count = sample_of(request_.inputs[k].shape).elements();
        visit(k, n * count, out, count);
        out += count;
      }
  }
};

}  // namespace

std::unique_ptr<Op> make_concat(const OpRequest& request, const ConcatSpec& spec) {
  return std::make_unique<Concat>(request, spec);
}

}  // namespace muster::device::ref
