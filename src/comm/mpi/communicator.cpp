#include "comm/mpi/communicator.hpp"

#include "comm/mpi/blocking_guard.hpp"
#include "comm/mpi/check.hpp"
#include "comm/mpi/shared_segment.hpp"
#include "comm/mpi/window.hpp"
#include "comm/shared_window.hpp"

#include <muster/base/check.hpp>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace muster::comm {
namespace {

constexpr std::size_t default_piece_bytes = std::size_t{1} << 30;

/// Test knob: MUSTER_MPI_PIECE_BYTES lets small tests take the long way. A multiple of 8.
std::size_t piece_bytes_asked() {
  const char* text = std::getenv("MUSTER_MPI_PIECE_BYTES");
  if (text == nullptr) return default_piece_bytes;
  const long long bytes = std::atoll(text);
  if (bytes < 8 || bytes % 8 != 0 || static_cast<std::size_t>(bytes) > default_piece_bytes)
    fail(ExitCode::usage, "MUSTER_MPI_PIECE_BYTES={}: expected a multiple of 8, at most {}", text, default_piece_bytes);
  return static_cast<std::size_t>(bytes);
}

MPI_Op operation_of(Reduction op) {
  switch (op) {
    case Reduction::sum:
      return MPI_SUM;
    case Reduction::min:
      return MPI_MIN;
    case Reduction::max:
      return MPI_MAX;
  }
  return MPI_OP_NULL;
}

/// Calls f(piece) for consecutive pieces; once, with nothing, for an empty span.
template <class T, class F>
void for_pieces(std::span<T> values, std::size_t piece, const F& f) {
  do {
    const auto n = std::min(piece, values.size());
    f(values.first(n));
    values = values.subspan(n);
  } while (!values.empty());
}

/// Memory of finished requests, for the next ones: a step that sends messages allocates nothing. Of the one thread that
/// talks.
class Spares {
 public:
  Spares() { free_.reserve(most); }
  ~Spares() {
    for (void* block : free_) ::operator delete(block);
  }
  void* take(std::size_t bytes) {
    if (free_.empty()) return ::operator new(bytes);
    void* block = free_.back();
    free_.pop_back();
    return block;
  }
  void give_back(void* block) {
    if (free_.size() < most) free_.push_back(block);
    else ::operator delete(block);
  }

 private:
  static constexpr std::size_t most = 256;
  std::vector<void*> free_;
};

Spares& spares() {
  static thread_local Spares of_requests;
  return of_requests;
}

class MpiRequest final : public Request {
 public:
  static void* operator new(std::size_t bytes) { return spares().take(bytes); }
  static void operator delete(void* block) { spares().give_back(block); }
  MPI_Request* add() { return &(used_++ == 0 ? first_ : more_.emplace_back(MPI_REQUEST_NULL)); }
  bool test() override {
    int is_done = 0;
    MUSTER_MPI(MPI_Test(&first_, &is_done, MPI_STATUS_IGNORE));
    if (is_done == 0 || more_.empty()) return is_done != 0;
    MUSTER_MPI(MPI_Testall(static_cast<int>(more_.size()), more_.data(), &is_done, MPI_STATUSES_IGNORE));
    return is_done != 0;
  }

 private:
  int used_ = 0;
  MPI_Request first_ = MPI_REQUEST_NULL;  // nearly always the only one: no allocation
  std::vector<MPI_Request> more_;
};

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<Runtime> runtime, MPI_Comm handle, std::string name,
                                 const MpiCommunicator* parent)
    : runtime_(std::move(runtime)), handle_(handle), name_(std::move(name)), piece_bytes_(piece_bytes_asked()) {
  if (parent != nullptr) traffic_ = parent->traffic_;
  traffic_.push_back(std::make_shared<Traffic>());
  int size = 0;
  MUSTER_MPI(MPI_Comm_rank(handle_, &rank_));
  MUSTER_MPI(MPI_Comm_size(handle_, &size));
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group mine = MPI_GROUP_NULL;
  MUSTER_MPI(MPI_Comm_group(runtime_->world(), &world));
  MUSTER_MPI(MPI_Comm_group(handle_, &mine));
  std::vector<int> own(static_cast<std::size_t>(size));
  std::iota(own.begin(), own.end(), 0);
  members_.resize(own.size());
  MUSTER_MPI(MPI_Group_translate_ranks(mine, size, own.data(), world, members_.data()));
  MUSTER_MPI(MPI_Group_free(&world));
  MUSTER_MPI(MPI_Group_free(&mine));
}

std::size_t MpiCommunicator::checked(int rank) const {
  MUSTER_CHECK(rank >= 0 && rank < size(), "rank {} in the group '{}' of {}", rank, name_, size());
  return static_cast<std::size_t>(rank);
}

bool MpiCommunicator::is_one_node() const {
  const int first = runtime_->node_of(members_[0]);
  return std::ranges::all_of(members_, [&](int r) { return runtime_->node_of(r) == first; });
}

void MpiCommunicator::count(std::size_t bytes) {
  for (const auto& traffic : traffic_) {
    ++traffic->messages;
    traffic->bytes += static_cast<std::int64_t>(bytes);
  }
}

void MpiCommunicator::finish(MPI_Request request, const std::string& what) {
  const Stopwatch watch;
  for (;;) {
    int is_done = 0;
    MUSTER_MPI(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
    if (is_done != 0) return;
    runtime_->pause(watch.elapsed_s(), deadline_s(), what, members_);
  }
}

void MpiCommunicator::barrier(const std::string& what) {
  MPI_Request request = MPI_REQUEST_NULL;
  MUSTER_MPI(MPI_Ibarrier(handle_, &request));
  count(0);
  finish(request, what);
}

void MpiCommunicator::broadcast(std::span<std::byte> bytes, int root, const std::string& what) {
  checked(root);
  for_pieces(bytes, piece_bytes_, [&](std::span<std::byte> piece) {
    MPI_Request request = MPI_REQUEST_NULL;
    MUSTER_MPI(MPI_Ibcast(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, root, handle_, &request));
    count(rank_ == root ? piece.size() : 0);
    finish(request, what);
  });
}

template <class T>
void MpiCommunicator::all_reduce_values(std::span<T> values, MPI_Datatype type, Reduction op, const std::string& what) {
  for_pieces(values, piece_bytes_ / sizeof(T), [&](std::span<T> piece) {
    MPI_Request request = MPI_REQUEST_NULL;
    MUSTER_MPI(MPI_Iallreduce(MPI_IN_PLACE, piece.data(), static_cast<int>(piece.size()), type, operation_of(op),
                              handle_, &request));
    count(piece.size_bytes());
    finish(request, what);
  });
}

void MpiCommunicator::all_reduce(std::span<double> values, Reduction op, const std::string& what) {
  all_reduce_values(values, MPI_DOUBLE, op, what);
}

void MpiCommunicator::all_reduce(std::span<std::int64_t> values, Reduction op, const std::string& what) {
  all_reduce_values(values, MPI_INT64_T, op, what);
}

void MpiCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const std::string& what) {
  MUSTER_CHECK_EQ(all.size(), mine.size() * static_cast<std::size_t>(size()));
  if (mine.size() > piece_bytes_) {  // pieces of a gather are not contiguous: every rank's part goes on its own
    std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank_);
    for (int r = 0; r < size(); ++r)
      broadcast(all.subspan(mine.size() * static_cast<std::size_t>(r), mine.size()), r, what);
    return;
  }
  const int bytes = static_cast<int>(mine.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MUSTER_MPI(MPI_Iallgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, handle_, &request));
  count(mine.size());
  finish(request, what);
}

std::vector<std::string> MpiCommunicator::all_gather_text(const std::string& mine, const std::string& what) {
  const auto ranks = static_cast<std::size_t>(size());
  const int own_length = static_cast<int>(mine.size());
  std::vector<int> lengths(ranks);
  all_gather(std::as_bytes(std::span(&own_length, 1)), std::as_writable_bytes(std::span(lengths)), what);
  std::vector<int> starts(ranks);
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  std::string all(static_cast<std::size_t>(starts.back()) + static_cast<std::size_t>(lengths.back()), '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  MUSTER_MPI(MPI_Iallgatherv(mine.data(), own_length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR,
                             handle_, &request));
  count(mine.size());
  finish(request, what);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r)
    texts.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(lengths[r])));
  return texts;
}

RequestPtr MpiCommunicator::send(std::span<const std::byte> bytes, int destination, int tag) {
  checked(destination);
  auto request = std::make_unique<MpiRequest>();
  for_pieces(bytes, piece_bytes_, [&](std::span<const std::byte> piece) {
    MUSTER_MPI(
        MPI_Isend(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, destination, tag, handle_, request->add()));
    count(piece.size());
  });
  return request;
}

RequestPtr MpiCommunicator::receive(std::span<std::byte> bytes, int source, int tag) {
  checked(source);
  auto request = std::make_unique<MpiRequest>();
  for_pieces(bytes, piece_bytes_, [&](std::span<std::byte> piece) {
    MUSTER_MPI(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, source, tag, handle_, request->add()));
  });
  return request;
}

void MpiCommunicator::wait_all(std::span<const RequestPtr> requests, std::span<const int> peers,
                               const std::string& what) {
  MUSTER_CHECK_EQ(requests.size(), peers.size());
  deadline_.restart(what, deadline_s());
  missing_.reserve(requests.size());
  for (;;) {
    missing_.clear();
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (!requests[i]->test()) missing_.push_back(peers[i]);
    if (missing_.empty()) return;
    poll(deadline_, missing_);
  }
}

void MpiCommunicator::poll(const Deadline& deadline, std::span<const int> missing) {
  std::vector<int> concerned;
  const double waited_s = deadline.elapsed_s();
  if (waited_s > deadline.limit_s())  // only then anybody is asked
    for (int r : missing) {
      const int world = members_[checked(r)];
      if (std::ranges::find(concerned, world) == concerned.end()) concerned.push_back(world);
    }
  runtime_->pause(waited_s, deadline.limit_s(), deadline.operation(), concerned);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key, const std::string& name) {
  barrier("split into '" + name + "'");
  const BlockingGuard guard("MPI_Comm_split", deadline_s());
  MPI_Comm part = MPI_COMM_NULL;
  MUSTER_MPI(MPI_Comm_split(handle_, color < 0 ? MPI_UNDEFINED : color, key, &part));
  if (part == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiCommunicator>(runtime_, part, name, this);
}

std::unique_ptr<Communicator> MpiCommunicator::split_node(const std::string& name) {
  return split(runtime_->node_of(members_[checked(rank_)]), rank_, name);
}

std::unique_ptr<SharedSegment> MpiCommunicator::share(std::size_t bytes_mine) {
  if (!is_one_node())
    fail(ExitCode::launch,
         "the ranks of '{}' run on several nodes and cannot share memory; put them on one node or use "
         "parallel.strategy: multi_worker_mirrored",
         name_);
  barrier("shared memory of '" + name_ + "'");
  const BlockingGuard guard("MPI_Win_allocate_shared", deadline_s());
  return make_shared_segment(handle_, bytes_mine);
}

std::unique_ptr<Window> MpiCommunicator::window(std::size_t bytes_mine, WindowKind kind) {
  if (kind == WindowKind::shared) return make_shared_window(share(bytes_mine), rank_);
  barrier("one-sided memory of '" + name_ + "'");
  return make_mpi_window(runtime_, handle_, bytes_mine, piece_bytes_);
}

}  // namespace muster::comm
