// Groups of ranks on MPI. Every collective is started non-blocking and tested in a loop with a deadline; MPI's own
// blocking calls remain only where no other form exists (split, windows), each behind a barrier with a deadline and a
// guard. The MPI communicator is not freed by the destructor (that is a collective call): MPI_Finalize releases it.
#pragma once

#include "comm/mpi/runtime.hpp"

namespace muster::comm {

class MpiCommunicator final : public Communicator {
 public:
  /// parent: the group this one was split from, whose traffic includes this one's; null for the world.
  MpiCommunicator(std::shared_ptr<Runtime> runtime, MPI_Comm handle, std::string name, const MpiCommunicator* parent);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  const std::string& name() const override { return name_; }
  WorldRank world_rank(int rank) const override { return WorldRank(members_[checked(rank)]); }
  const std::string& host(int rank) const override { return info(rank).host; }
  bool is_one_node() const override;

  void barrier(const std::string& what) override;
  void broadcast(std::span<std::byte> bytes, int root, const std::string& what) override;
  void all_reduce(std::span<double> values, Reduction op, const std::string& what) override;
  void all_reduce(std::span<std::int64_t> values, Reduction op, const std::string& what) override;
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const std::string& what) override;
  std::vector<std::string> all_gather_text(const std::string& mine, const std::string& what) override;

  RequestPtr send(std::span<const std::byte> bytes, int destination, int tag) override;
  RequestPtr receive(std::span<std::byte> bytes, int source, int tag) override;
  void wait_all(std::span<const RequestPtr> requests, std::span<const int> peers, const std::string& what) override;
  void poll(const Deadline& deadline, std::span<const int> missing) override;

  std::unique_ptr<Communicator> split(int color, int key, const std::string& name) override;
  std::unique_ptr<Communicator> split_node(const std::string& name) override;
  std::unique_ptr<SharedSegment> share(std::size_t bytes_mine) override;

  std::unique_ptr<Window> window(std::size_t bytes_mine, WindowKind kind) override;

  double deadline_s() const override { return runtime_->deadline_s(); }
  Traffic traffic() const override { return *traffic_.back(); }

 private:
  std::size_t checked(int rank) const;
  const RankInfo& info(int rank) const { return runtime_->ranks()[static_cast<std::size_t>(members_[checked(rank)])]; }
  template <class T>
  void all_reduce_values(std::span<T> values, MPI_Datatype type, Reduction op, const std::string& what);
  void finish(MPI_Request request, const std::string& what);
  void count(std::size_t bytes);

  std::shared_ptr<Runtime> runtime_;
  MPI_Comm handle_;
  std::string name_;
  int rank_ = 0;
  std::vector<int> members_;                       ///< world ranks, by rank
  std::size_t piece_bytes_;                        ///< MPI counts are int: larger buffers go in pieces
  std::vector<std::shared_ptr<Traffic>> traffic_;  ///< of the groups this one was split from, then its own
  // Of the wait under way, kept so that waiting allocates nothing.
  Deadline deadline_{"", 0};
  std::vector<int> missing_;
};

}  // namespace muster::comm
