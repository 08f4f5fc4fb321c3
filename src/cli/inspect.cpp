// `muster inspect`: what an HDF5 file holds.
#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/dataset/convert.hpp>

#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

int run_inspect(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("samples", po::value<int>()->default_value(100000),
                      "look at this many samples for the histogram and the range of values");
  const Arguments arguments("inspect", {"FILE"}, flags, words);
  if (arguments.is_help()) return 0;
  if (arguments.integer("samples") < 0)
    fail(ExitCode::usage, "inspect: --samples: expected 0 or more, found {}", arguments.integer("samples"));
  std::cout << dataset::inspect(arguments.text("FILE"), arguments.integer("samples"));
  return 0;
}

}  // namespace muster::cli
