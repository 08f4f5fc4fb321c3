// What all communicators of this process share: who the ranks are, and what happens while one waits.
//
// A waiting rank calls pause() in its loop. It passes the time, drives MPI, answers other ranks' questions ("what are
// you waiting in?"), looks every few milliseconds whether a process of this node has died, and, when the deadline is
// over, asks everybody concerned the same question: who does not answer within a second is named as absent.
#pragma once

#include "comm/process.hpp"

#include <muster/base/ids.hpp>
#include <muster/comm/session.hpp>

#include <mpi.h>

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::comm {

struct RankInfo {
  std::string host;
  ProcessIdentity process;
  std::vector<int> node_ranks;  ///< world ranks that share memory with it, itself included, ascending
};

class Runtime {
 public:
  /// Starts MPI; collective over the job.
  Runtime(const SessionOptions& options, const LaunchFacts& from_environment);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() = default;

  MPI_Comm world() const { return world_; }
  int rank() const { return rank_; }
  const std::vector<RankInfo>& ranks() const { return ranks_; }
  /// The node of a rank, named by its lowest world rank. Test knob: MUSTER_FAKE_NODE_SIZE=k makes every k ranks of a
  /// node a node of their own, looked up anew at each call.
  int node_of(int world_rank) const;
  const LaunchFacts& launch() const { return launch_; }
  double deadline_s() const { return deadline_s_; }
  void set_deadline(double seconds) { deadline_s_ = seconds; }

  /// One turn of a waiting loop. concerned: world ranks the wait may depend on. Throws Error(comm).
  void pause(double waited_s, double limit_s, const std::string& operation, std::span<const int> concerned);
  /// Collective; ends MPI.
  void finalize();

 private:
  struct Answer {
    int question = 0;  ///< a late answer to an earlier question is told by it
    std::array<char, 124> operation{};
  };

  void exchange_ranks(const LaunchFacts& from_environment);
  void answer_questions(const std::string& operation);
  void notice_lost_ranks(const std::string& operation);
  [[noreturn]] void report_expired(double limit_s, const std::string& operation, std::span<const int> concerned);
  std::map<int, std::string> ask(std::span<const int> asked, const std::string& operation);
  std::string name_of(int world_rank) const;

  double deadline_s_;
  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Comm questions_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::vector<RankInfo> ranks_;
  std::vector<int> neighbours_;  ///< other world ranks whose process this one can see
  LaunchFacts launch_;
  Answer answer_;
  int question_ = 0;  ///< number of the last one asked
  double next_service_s_ = 0;
  double next_census_s_ = 0;
};

}  // namespace muster::comm
