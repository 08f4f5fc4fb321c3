// The worker's side against a window whose copies take long and are torn, as over links that are cut and healed. One
// process, one server that is only words.
#include "parallel/server/board.hpp"

#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>
#include <muster/parallel/server/client.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace muster::parallel {
namespace {

constexpr double deadline_s = 0.1;
constexpr std::int64_t elements = 16;

/// Hands everything on, but while `torn` lasts a copy of a version takes `hold_s`, and meanwhile the server makes as
/// many versions as overwrite it.
class TearingWindow : public comm::Window {
 public:
  explicit TearingWindow(comm::Window& window) : window_(window) {}
  int torn = 0;
  double hold_s = 0;

  void get(std::span<std::byte> into, int rank, std::size_t offset) override {
    window_.get(into, rank, offset);
    if (into.size() != elements * sizeof(float) || torn == 0) return;
    --torn;
    std::this_thread::sleep_for(std::chrono::duration<double>(hold_s));
    put_word(get_word(0, Board::published()) + version_buffers, 0, Board::published());
  }
  std::span<std::byte> mine() override { return window_.mine(); }
  void put(std::span<const std::byte> from, int rank, std::size_t offset) override { window_.put(from, rank, offset); }
  void flush(int rank) override { window_.flush(rank); }
  void put_word(std::uint64_t value, int rank, std::size_t offset) override { window_.put_word(value, rank, offset); }
  std::uint64_t get_word(int rank, std::size_t offset) override { return window_.get_word(rank, offset); }
  void progress() override { window_.progress(); }
  comm::WindowKind kind() const override { return window_.kind(); }
  std::string describe() const override { return window_.describe(); }
  void close() override { window_.close(); }

 private:
  comm::Window& window_;
};

struct Link {
  std::unique_ptr<comm::Session> session = comm::start_session({});
  Roles roles{1, 1, 0};
  std::vector<optim::ParamRun> runs{{"w", {0, elements}, true}};
  Shards shards = cut_shards(elements, 0, 1, false, runs);
  WindowSizes sizes{0, 1, 0};
  Board board{roles, shards, 0, sizes};
  std::unique_ptr<comm::Window> window = session->world().window(board.bytes(), comm::WindowKind::shared);
  TearingWindow tearing{*window};
  std::unique_ptr<ServerClient> client;
  std::vector<float> weights = std::vector<float>(elements);

  Link() {
    window->put_word(1, 0, board.order(0) + offsetof(Order, generation));
    client = std::make_unique<ServerClient>(
        tearing, roles, shards, sizes, 0, [] { return false; }, ClientOptions{deadline_s, 0.01});
  }
};

TEST(ServerClient, ACopyThatWasHeldUpForLongerThanTheDeadlineIsTriedAgain) {
  Link link;
  link.tearing.torn = 1;
  link.tearing.hold_s = 3 * deadline_s;
  EXPECT_EQ(link.client->pull(link.weights, {}, 0), version_buffers);
}

TEST(ServerClient, AServerThatNeverLeavesTimeForACopyIsAnError) {
  Link link;
  link.tearing.torn = 1000;
  link.tearing.hold_s = deadline_s / 5;
  try {
    link.client->pull(link.weights, {}, 0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::comm);
    EXPECT_NE(std::string(error.what()).find("faster than this worker can copy one"), std::string::npos)
        << error.what();
  }
  EXPECT_LT(link.tearing.torn, 1000 - 4) << "several tries";
}

}  // namespace
}  // namespace muster::parallel
