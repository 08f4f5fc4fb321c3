#include "comm/self/self.hpp"

#include "comm/shared_window.hpp"

#include <muster/base/check.hpp>

#include <unistd.h>
#include <cstdlib>
#include <cstring>

namespace muster::comm {
namespace {

class SelfSegment : public SharedSegment {
 public:
  explicit SelfSegment(std::size_t bytes) : bytes_(bytes) {
    data_ = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
    MUSTER_CHECK(data_ != nullptr, "{} bytes", bytes);
    std::memset(data_, 0, bytes);
  }
  ~SelfSegment() override { std::free(data_); }
  std::span<std::byte> part(int) override { return {data_, bytes_}; }
  void close() override {}

 private:
  std::size_t bytes_;
  std::byte* data_;
};

class SelfCommunicator : public Communicator {
 public:
  SelfCommunicator(std::string name, double* deadline_s) : name_(std::move(name)), deadline_s_(deadline_s) {
    char host[256] = {};
    ::gethostname(host, sizeof(host) - 1);
    host_ = host;
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const std::string& name() const override { return name_; }
  WorldRank world_rank(int) const override { return WorldRank(0); }
  const std::string& host(int) const override { return host_; }
  bool is_one_node() const override { return true; }

  void barrier(const std::string&) override {}
  void broadcast(std::span<std::byte>, int, const std::string&) override {}
  void all_reduce(std::span<double>, Reduction, const std::string&) override {}
  void all_reduce(std::span<std::int64_t>, Reduction, const std::string&) override {}
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const std::string&) override {
    MUSTER_CHECK_EQ(mine.size(), all.size());
    std::memmove(all.data(), mine.data(), mine.size());
  }
  std::vector<std::string> all_gather_text(const std::string& mine, const std::string&) override { return {mine}; }
  RequestPtr send(std::span<const std::byte>, int destination, int) override { no_peer(destination); }
  RequestPtr receive(std::span<std::byte>, int source, int) override { no_peer(source); }
  void wait_all(std::span<const RequestPtr>, std::span<const int>, const std::string&) override {}
  void poll(const Deadline& deadline, std::span<const int>) override {
    if (deadline.is_over())
      fail(ExitCode::comm, "{}: deadline of {} s passed in a world of one", deadline.operation(), deadline.limit_s());
  }
  std::unique_ptr<Communicator> split(int color, int, const std::string& name) override {
    if (color < 0) return nullptr;
    return std::make_unique<SelfCommunicator>(name, deadline_s_);
  }
  std::unique_ptr<Communicator> split_node(const std::string& name) override { return split(0, 0, name); }
  std::unique_ptr<SharedSegment> share(std::size_t bytes) override { return std::make_unique<SelfSegment>(bytes); }
  std::unique_ptr<Window> window(std::size_t bytes, WindowKind) override { return make_shared_window(share(bytes), 0); }
  double deadline_s() const override { return *deadline_s_; }
  Traffic traffic() const override { return {}; }

 private:
  [[noreturn]] static void no_peer(int peer) {
    fail(ExitCode::internal, "a message to or from rank {} in a world of one", peer);
  }
  std::string name_, host_;
  double* deadline_s_;
};

class SelfSession : public Session {
 public:
  SelfSession(const SessionOptions& options, LaunchFacts facts, std::string library)
      : deadline_s_(options.deadline_s),
        facts_(std::move(facts)),
        library_(std::move(library)),
        world_("world", &deadline_s_) {
    set_error_context(0, 1, world_.host(0));
  }
  Communicator& world() override { return world_; }
  const LaunchFacts& launch() const override { return facts_; }
  std::string library() const override { return library_; }
  void set_deadline(double seconds) override { deadline_s_ = seconds; }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }
  void set_ranks_lost() override {}
  bool are_ranks_lost() const override { return false; }
  void close() override {}

 private:
  double deadline_s_;
  LaunchFacts facts_;
  std::string library_;
  SelfCommunicator world_;
};

}  // namespace

std::unique_ptr<Session> make_self_session(const SessionOptions& options, LaunchFacts facts, std::string library) {
  return std::make_unique<SelfSession>(options, std::move(facts), std::move(library));
}

}  // namespace muster::comm
