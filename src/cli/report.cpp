// `muster report`: the curves and settings of runs as one page.
#include "cli/command.hpp"

#include <muster/base/error.hpp>
#include <muster/base/file.hpp>
#include <muster/report/page.hpp>

#include <filesystem>
#include <iostream>

namespace muster::cli {
namespace po = boost::program_options;

int run_report(const std::vector<std::string>& words) {
  po::options_description flags("flags");
  flags.add_options()("output", po::value<std::string>(), "the page's file (default: report.html in the first run)");
  const Arguments arguments("report", {"RUN..."}, flags, words);
  if (arguments.is_help()) return 0;
  std::vector<report::Run> runs;
  for (const std::string& directory : arguments.list("RUN")) runs.push_back(report::load_run(directory));
  const std::filesystem::path output = arguments.has("output")
                                           ? std::filesystem::path(arguments.text("output"))
                                           : std::filesystem::path(runs.front().name) / "report.html";
  write_file_atomic(output, report::page(runs), static_cast<int>(ExitCode::usage));
  std::cout << "report      " << output.string() << "\n";
  return 0;
}

}  // namespace muster::cli
