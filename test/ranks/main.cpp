// Runs the rank tests: picks the suites that state this job's rank count, shares failures between ranks after every
// test, and lets rank 0 alone print and write the report. `ranks --counts` prints all counts that the suites state.
#include "ranks/ranks.hpp"

#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/base/log.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace muster::test {
namespace {

// A rank that died inside a test must show up as a failure well before the runner's wall limit.
constexpr double deadline_s = 20;

std::unique_ptr<comm::Session>& session_owner() {
  static std::unique_ptr<comm::Session> owner;
  return owner;
}

std::map<std::string, std::set<int>>& declarations() {
  static std::map<std::string, std::set<int>> counts;
  return counts;
}

/// "Prefix/Suite/3" and "Suite/0" are both of Suite.
const std::set<int>* counts_of(std::string_view suite) {
  while (!suite.empty()) {
    const auto slash = suite.find('/');
    const auto found = declarations().find(std::string(suite.substr(0, slash)));
    if (found != declarations().end()) return &found->second;
    if (slash == std::string_view::npos) break;
    suite.remove_prefix(slash + 1);
  }
  return nullptr;
}

std::set<int> all_counts() {
  std::set<int> all;
  for (const auto& [suite, counts] : declarations()) all.insert(counts.begin(), counts.end());
  return all;
}

/// The filter for a job of `size` ranks; "" where a suite states no counts.
std::string filter_for(int size) {
  std::string filter;
  const auto& tests = *testing::UnitTest::GetInstance();
  for (int i = 0; i < tests.total_test_suite_count(); ++i) {
    const std::string suite = tests.GetTestSuite(i)->name();
    const std::set<int>* counts = counts_of(suite);
    if (counts == nullptr) {
      std::fprintf(stderr, "suite %s states no rank counts: add MUSTER_RANKS(%s, ...)\n", suite.c_str(), suite.c_str());
      return "";
    }
    if (counts->contains(size)) filter += (filter.empty() ? "" : ":") + suite + ".*";
  }
  return filter.empty() ? "-*" : filter;
}

std::string failures_of(const testing::TestInfo& test) {
  std::string text;
  for (int i = 0; i < test.result()->total_part_count(); ++i) {
    const auto& part = test.result()->GetTestPartResult(i);
    if (part.passed()) continue;
    text += (part.skipped() ? "skipped" : part.file_name() ? part.file_name() : "unknown file");
    text += ":" + std::to_string(part.line_number()) + "\n" + part.message() + "\n";
  }
  return text;
}

/// Shares failures. Uses its own communicator, so that a test that broke off mid-collective cannot garble the verdict.
class CollectiveVerdict : public testing::EmptyTestEventListener {
 public:
  explicit CollectiveVerdict(comm::Session& session)
      : session_(session), group_(session.world().split(0, session.world().rank(), "verdict")) {}

  void close() { group_.reset(); }

  void OnTestEnd(const testing::TestInfo& test) override {
    try {
      // A rank that left the test early waits here while the others meet their own deadline inside it.
      const double deadline_of_test_s = session_.world().deadline_s();
      session_.set_deadline(3 * std::max(deadline_s, deadline_of_test_s));
      const auto all = group_->all_gather_text(failures_of(test), "the verdict of a test");
      session_.set_deadline(deadline_of_test_s);
      for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (static_cast<int>(rank) != group_->rank() && !all[rank].empty())
          ADD_FAILURE() << "on rank " << rank << ": " << all[rank];
    } catch (const std::exception& error) {
      std::fprintf(stderr, "no common verdict on %s.%s: %s\n", test.test_suite_name(), test.name(), error.what());
      session_.abort(static_cast<int>(ExitCode::comm));
    }
  }

 private:
  comm::Session& session_;
  std::unique_ptr<comm::Communicator> group_;
};

int print_counts() {
  for (int count : all_counts()) std::printf("%d\n", count);
  return 0;
}

int run_tests() {
  session_owner() = comm::start_session({.deadline_s = deadline_s});
  const auto& group = session().world();
  const std::string filter = filter_for(group.size());
  if (filter.empty()) return 1;
  testing::GTEST_FLAG(filter) = filter;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (group.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
  }
  log::set_printing(group.rank() == 0);
  CollectiveVerdict verdict(session());
  listeners.Append(&verdict);
  const int result = RUN_ALL_TESTS();
  listeners.Release(&verdict);
  verdict.close();
  session().close();  // also after failures: a rank that leaves without it has the launcher kill rank 0 at its report
  return result;
}

}  // namespace

comm::Session& session() { return *session_owner(); }

std::unique_ptr<comm::Communicator> world() {
  auto& all = session().world();
  return all.split(0, all.rank(), "test");
}

DeclareRanks::DeclareRanks(const char* suite, std::initializer_list<int> counts) { declarations()[suite] = counts; }

}  // namespace muster::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "--counts") return muster::test::print_counts();
  try {
    return muster::test::run_tests();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank tests: %s\n", error.what());
    if (muster::test::session_owner()) muster::test::session().abort(1);
    return 1;
  }
}
