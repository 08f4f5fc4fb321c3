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

/// Of 16 elements 12 are parameters, on a server that applies plain sgd at rate 1. 1 + 2^-9 lies half-way between two
/// bfloat16 and goes to the even one below, 1 + 3 * 2^-9 to the one above; running values are pushed as they are.
TEST(ServerClient, PushesInBfloat16) {
  constexpr std::int64_t parameters = 12;
  const auto session = comm::start_session({});
  const Roles roles{1, 1, 0};
  const std::vector<optim::ParamRun> runs{{"w", {0, parameters}, true}};
  const Shards shards = cut_shards(parameters, elements - parameters, 1, false, runs);
  WindowSizes sizes;
  sizes.is_bf16 = true;
  const Board board(roles, shards, 0, sizes);
  const auto window = session->world().window(board.bytes(), comm::WindowKind::shared);
  const auto optimizer = optim::make_optimizer({});
  ShardServer server(*window, roles, shards, sizes, 0, *optimizer, runs, 1);
  server.start(0, std::vector<float>(elements), {});
  window->put_word(1, 0, board.order(0) + offsetof(Order, generation));
  ServerClient client(*window, roles, shards, sizes, 0, [] { return false; }, {deadline_s, 0.01});
  const float half = 1.0f / 512;
  std::vector<float> gradient(parameters, 1 + half);
  gradient[3] = -2.5f;
  gradient[7] = 1 + 3 * half;
  const std::vector<float> running(elements - parameters, 1 + half);
  client.push(0, {0, 5}, std::span(gradient).first(5));
  client.push(0, {5, parameters}, std::span(gradient).subspan(5));
  client.push(0, {parameters, elements}, running);
  client.commit({});
  server.apply({{{0, 1}}, 1, 1.0, 1.0, false});
  const auto* weights = reinterpret_cast<const float*>(window->mine().data() + board.version(1));
  EXPECT_EQ(weights[0], -1.0f);
  EXPECT_EQ(weights[3], 2.5f);
  EXPECT_EQ(weights[7], -(1 + 4 * half));
  EXPECT_EQ(weights[11], -1.0f);
  for (std::int64_t i = parameters; i < elements; ++i) EXPECT_EQ(weights[i], 1 + half) << i;
  const auto* bytes = reinterpret_cast<const std::uint16_t*>(window->mine().data() + board.slot(0, 1, 0));
  EXPECT_EQ(bytes[0], 0x3f80u);
  EXPECT_EQ(bytes[3], 0xc020u);
  EXPECT_EQ(bytes[parameters], 0u) << "half the bytes, and nothing behind them";
  round_as_pushed(gradient);
  for (std::int64_t i = 0; i < parameters; ++i) EXPECT_EQ(gradient[static_cast<std::size_t>(i)], -weights[i]) << i;
}

}  // namespace
}  // namespace muster::parallel
