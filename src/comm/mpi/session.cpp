// The session on MPI, and the choice between it and the group of one.
#include "comm/launch.hpp"
#include "comm/mpi/blocking_guard.hpp"
#include "comm/mpi/check.hpp"
#include "comm/mpi/communicator.hpp"
#include "comm/self/self.hpp"

#include <muster/base/check.hpp>

#include <unistd.h>
#include <cstdio>
#include <cstdlib>

namespace muster::comm {
namespace {

/// "Open MPI v4.1.4, package: ..." -> "Open MPI 4.1.4". May be called before MPI starts.
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MUSTER_MPI(MPI_Get_library_version(text, &length));
  std::string name(text, static_cast<std::size_t>(length));
  name = name.substr(0, name.find_first_of(",\n"));
  if (const auto v = name.find(" v"); v != std::string::npos) name.erase(v + 1, 1);
  return name;
}

class MpiSession final : public Session {
 public:
  MpiSession(const SessionOptions& options, const LaunchFacts& facts)
      : runtime_(std::make_shared<Runtime>(options, facts)), world_(runtime_, runtime_->world(), "world", nullptr) {}

  Communicator& world() override { return world_; }
  const LaunchFacts& launch() const override { return runtime_->launch(); }
  std::string library() const override { return library_name(); }
  void set_deadline(double seconds) override { runtime_->set_deadline(seconds); }

  void abort(int exit_code) override {
    std::fflush(nullptr);
    const BlockingGuard guard("MPI_Abort", 10);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    ::_exit(exit_code);
  }

  void set_ranks_lost() override { are_ranks_lost_ = true; }
  bool are_ranks_lost() const override { return are_ranks_lost_; }
  void close() override {
    if (is_closed_ || are_ranks_lost_) return;
    world_.barrier("end of the session");
    is_closed_ = true;
    runtime_->finalize();
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  MpiCommunicator world_;
  bool is_closed_ = false;
  bool are_ranks_lost_ = false;
};

}  // namespace

std::unique_ptr<Session> start_session(const SessionOptions& options) {
  LaunchFacts facts = facts_from_environment([](const char* name) -> const char* { return std::getenv(name); });
  if (facts.launcher != "none") return std::make_unique<MpiSession>(options, facts);
  const cpu_set_t cores = allowed_cores();
  facts.cores_allowed = facts.cores_of_node = CPU_COUNT(&cores);
  facts.is_bound = facts.cores_allowed < online_cores();
  return make_self_session(options, facts, library_name());
}

}  // namespace muster::comm
