// One case of an op whose numbers were worked out by hand, run on every backend.
#pragma once

#include "op_harness.hpp"

#include <string>
#include <vector>

namespace muster::device::test {

struct Hand {
  std::string name;
  OpSpec spec;
  std::vector<Shape> shapes;
  std::vector<Values> inputs;
  std::vector<Values> params;
  Values output;
  Values output_grad;
  std::vector<Values> input_grads;  ///< empty: not compared
  std::vector<Values> param_grads;
};

inline void check(const Hand& hand, double tolerance = 1e-6) {
  SCOPED_TRACE(hand.name);
  on_every_backend([&](Backend& backend) {
    OpRun run(backend, hand.spec, hand.shapes);
    for (std::size_t k = 0; k < hand.inputs.size(); ++k) run.set_input(hand.inputs[k], k);
    for (std::size_t i = 0; i < hand.params.size(); ++i) run.set_param(i, hand.params[i]);
    run.set_output_grad(hand.output_grad);
    expect_near(run.forward(), hand.output, tolerance, "output");
    if (!run.op().traits().passes_grad_through) run.backward();
    for (std::size_t k = 0; k < hand.input_grads.size(); ++k)
      expect_near(run.input_grad(k), hand.input_grads[k], tolerance, "gradient of input " + std::to_string(k));
    for (std::size_t i = 0; i < hand.param_grads.size(); ++i)
      expect_near(run.param_grad(i), hand.param_grads[i], tolerance, "gradient of parameter " + std::to_string(i));
    run.expect_intact();
  });
}

}  // namespace muster::device::test
