#include "comm/mpi/runtime.hpp"

#include "comm/mpi/blocking_guard.hpp"
#include "comm/mpi/check.hpp"
#include "comm/mpi/lost_peers.hpp"

#include <muster/base/check.hpp>
#include <muster/base/clock.hpp>
#include <muster/base/pause.hpp>
#include <muster/base/text.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace muster::comm {
namespace {

constexpr int question_tag = 1;
constexpr int answer_tag = 2;
constexpr double service_interval_s = 10e-3;
constexpr double census_interval_s = 50e-3;
constexpr double census_after_s = 0.1;  // shorter waits are everyday life
constexpr double answer_time_s = 1.0;

/// A rank as it introduces itself.
struct Introduction {
  char host[64];
  std::int64_t node_leader;
  ProcessIdentity process;
  cpu_set_t cores;
};

/// On one node ob1 over shared memory is what Open MPI ends up with, after probing networks for a fifth of a second.
void spare_network_probe() {
  const char* all = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  // Debian switches off the transport that one-sided operations need between hosts, and prefers one that dies with a
  // peer
  ::setenv("OMPI_MCA_osc", "^ucx", 0);
  if (all != nullptr && local != nullptr && std::strcmp(all, local) == 0) ::setenv("OMPI_MCA_pml", "ob1", 0);
}

void start_mpi() {
  int provided = MPI_THREAD_SINGLE;
  MUSTER_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
  MUSTER_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MUSTER_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  if (provided < MPI_THREAD_SERIALIZED)
    fail(ExitCode::launch,
         "the MPI library grants thread level {}, but muster needs MPI_THREAD_SERIALIZED ({}): use a build "
         "of it with thread support",
         provided, MPI_THREAD_SERIALIZED);
}

/// World rank of the lowest rank that shares memory with this one.
int leader_of_node(MPI_Comm world, int rank) {
  MPI_Comm node = MPI_COMM_NULL;
  MUSTER_MPI(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  int leader = rank;
  MUSTER_MPI(MPI_Bcast(&leader, 1, MPI_INT, 0, node));
  MUSTER_MPI(MPI_Comm_free(&node));
  return leader;
}

/// 0: unset.
int fake_node_size() {
  const char* text = std::getenv("MUSTER_FAKE_NODE_SIZE");
  if (text == nullptr) return 0;
  const int size = std::atoi(text);
  if (size < 1) fail(ExitCode::usage, "MUSTER_FAKE_NODE_SIZE={}: expected a positive number of ranks", text);
  return size;
}

}  // namespace

Runtime::Runtime(const SessionOptions& options, const LaunchFacts& from_environment) : deadline_s_(options.deadline_s) {
  spare_network_probe();
  const BlockingGuard guard("MPI_Init", deadline_s_);
  start_mpi();
  outlive_lost_peers();
  MUSTER_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &world_));
  MUSTER_MPI(MPI_Comm_dup(world_, &questions_));
  MUSTER_MPI(MPI_Comm_rank(world_, &rank_));
  exchange_ranks(from_environment);
}

void Runtime::exchange_ranks(const LaunchFacts& from_environment) {
  int size = 1;
  MUSTER_MPI(MPI_Comm_size(world_, &size));
  Introduction mine{};
  std::snprintf(mine.host, sizeof mine.host, "%s", host_name().c_str());
  mine.node_leader = leader_of_node(world_, rank_);
  mine.process = identify_self();
  mine.cores = allowed_cores();
  std::vector<Introduction> all(static_cast<std::size_t>(size));
  MUSTER_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, world_));
  set_error_context(rank_, size, mine.host);

  launch_ = from_environment;
  launch_.world_size = size;
  launch_.ranks_on_node = 0;
  cpu_set_t cores_of_node = mine.cores;
  std::map<std::int64_t, std::vector<int>> nodes;  // by leader
  for (int r = 0; r < size; ++r) nodes[all[static_cast<std::size_t>(r)].node_leader].push_back(r);
  for (int r = 0; r < size; ++r) {
    const Introduction& other = all[static_cast<std::size_t>(r)];
    ranks_.push_back({other.host, other.process, nodes[other.node_leader]});
    if (other.node_leader != mine.node_leader) continue;
    ++launch_.ranks_on_node;
    CPU_OR(&cores_of_node, &cores_of_node, &other.cores);
    if (r != rank_) neighbours_.push_back(r);
  }
  launch_.cores_allowed = CPU_COUNT(&mine.cores);
  launch_.cores_of_node = CPU_COUNT(&cores_of_node);
  launch_.is_bound = launch_.cores_allowed < online_cores();
}

int Runtime::node_of(int world_rank) const {
  const std::vector<int>& together = ranks_[static_cast<std::size_t>(world_rank)].node_ranks;
  const int size = fake_node_size();
  if (size == 0) return together.front();
  const auto position = std::ranges::find(together, world_rank) - together.begin();
  return together[static_cast<std::size_t>(position / size * size)];
}

void Runtime::finalize() {
  const BlockingGuard guard("MPI_Finalize", deadline_s_);
  MUSTER_MPI(MPI_Finalize());
}

void Runtime::pause(double waited_s, double limit_s, const std::string& operation, std::span<const int> concerned) {
  const double now = now_s();
  if (now >= next_service_s_) {
    next_service_s_ = now + service_interval_s;
    answer_questions(operation);
    if (waited_s > census_after_s && now >= next_census_s_) {
      next_census_s_ = now + census_interval_s;
      notice_lost_ranks(operation);
    }
    if (waited_s > limit_s) report_expired(limit_s, operation, concerned);
  }
  pass_time(waited_s);
}

void Runtime::answer_questions(const std::string& operation) {
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    MUSTER_MPI(MPI_Iprobe(MPI_ANY_SOURCE, question_tag, questions_, &is_there, &status));
    if (is_there == 0) return;
    MUSTER_MPI(MPI_Recv(&answer_.question, 1, MPI_INT, status.MPI_SOURCE, question_tag, questions_, MPI_STATUS_IGNORE));
    answer_.operation.fill('\0');
    operation.copy(answer_.operation.data(), answer_.operation.size() - 1);
    MPI_Request request = MPI_REQUEST_NULL;  // small enough to be buffered by MPI: nobody waits for it
    MUSTER_MPI(MPI_Isend(&answer_, sizeof answer_, MPI_BYTE, status.MPI_SOURCE, answer_tag, questions_, &request));
    MUSTER_MPI(MPI_Request_free(&request));
  }
}

std::string Runtime::name_of(int world_rank) const {
  return fmt::format("rank {} on {}", world_rank, ranks_[static_cast<std::size_t>(world_rank)].host);
}

void Runtime::notice_lost_ranks(const std::string& operation) {
  std::vector<std::string> lost;
  for (int r : neighbours_) {
    const auto& process = ranks_[static_cast<std::size_t>(r)].process;
    if (!is_alive(process)) lost.push_back(fmt::format("{} (process {} has ended)", name_of(r), process.pid));
  }
  if (!lost.empty()) fail(ExitCode::comm, "lost {} while waiting in '{}'", join(lost, ", "), operation);
}

std::map<int, std::string> Runtime::ask(std::span<const int> asked, const std::string& operation) {
  ++question_;
  for (int r : asked) {
    MPI_Request request = MPI_REQUEST_NULL;
    MUSTER_MPI(MPI_Isend(&question_, 1, MPI_INT, r, question_tag, questions_, &request));
    MUSTER_MPI(MPI_Request_free(&request));
  }
  std::map<int, std::string> answers;
  const Deadline deadline("answers", answer_time_s);
  while (!deadline.is_over() && answers.size() < asked.size()) {
    answer_questions(operation);
    int is_there = 0;
    MPI_Status status;
    MUSTER_MPI(MPI_Iprobe(MPI_ANY_SOURCE, answer_tag, questions_, &is_there, &status));
    if (is_there != 0) {
      Answer answer;
      MUSTER_MPI(
          MPI_Recv(&answer, sizeof answer, MPI_BYTE, status.MPI_SOURCE, answer_tag, questions_, MPI_STATUS_IGNORE));
      if (answer.question == question_) answers[status.MPI_SOURCE] = answer.operation.data();
    }
    pass_time(deadline.elapsed_s());
  }
  return answers;
}

void Runtime::report_expired(double limit_s, const std::string& operation, std::span<const int> concerned) {
  std::vector<int> others;
  std::ranges::copy_if(concerned, std::back_inserter(others), [&](int r) { return r != rank_; });
  const auto answers = ask(others, operation);
  const std::string own = operation.substr(0, answer_.operation.size() - 1);
  std::vector<std::string> absent;
  std::vector<std::string> elsewhere;
  for (int r : others) {
    const auto found = answers.find(r);
    if (found == answers.end()) absent.push_back(name_of(r));
    else if (found->second != own) elsewhere.push_back(fmt::format("{} (waits in '{}')", name_of(r), found->second));
  }
  std::string message = fmt::format("'{}' was not done after {} s", operation, limit_s);
  if (!absent.empty()) message += fmt::format("; absent: {}", join(absent, ", "));
  if (!elsewhere.empty()) message += fmt::format("; elsewhere: {}", join(elsewhere, ", "));
  if (absent.empty() && elsewhere.empty())
    message += "; all ranks wait in it, so messages are lost or the network is slow";
  fail(ExitCode::comm, "{}. A rank that is only slow needs a longer run.deadline_s", message);
}

}  // namespace muster::comm
