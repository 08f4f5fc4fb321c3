// The report of some runs as one HTML page that needs nothing else: no network, no script.
#pragma once

#include <muster/report/run.hpp>

#include <string>
#include <vector>

namespace muster::report {

/// Curves of all runs in common diagrams, a table of their ends, and the settings: those that differ where there are
/// several runs, else all.
std::string page(const std::vector<Run>& runs);

}  // namespace muster::report
