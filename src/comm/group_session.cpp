// A part of a job that works as a job of its own.
#include <muster/comm/session.hpp>

#include <cstdlib>

namespace muster::comm {
namespace {

class GroupSession final : public Session {
 public:
  GroupSession(Session& whole, Communicator& group) : whole_(whole), group_(group) {}

  Communicator& world() override { return group_; }
  const LaunchFacts& launch() const override { return whole_.launch(); }
  std::string library() const override { return whole_.library(); }
  void set_deadline(double seconds) override { whole_.set_deadline(seconds); }
  [[noreturn]] void abort(int exit_code) override {
    whole_.abort(exit_code);
    std::_Exit(exit_code);  // not reached
  }
  void set_ranks_lost() override { whole_.set_ranks_lost(); }
  bool are_ranks_lost() const override { return whole_.are_ranks_lost(); }
  void close() override {}

 private:
  Session& whole_;
  Communicator& group_;
};

}  // namespace

std::unique_ptr<Session> make_group_session(Session& whole, Communicator& group) {
  return std::make_unique<GroupSession>(whole, group);
}

}  // namespace muster::comm
