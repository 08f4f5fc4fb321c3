// The group of one: what a process without a launcher gets.
#include "comm/self/self.hpp"

#include <muster/base/error.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace muster::comm {
namespace {

std::unique_ptr<Session> session(double deadline_s = 300) {
  return make_self_session({deadline_s}, LaunchFacts{}, "none");
}

TEST(SelfSession, AnswersForOneRank) {
  const auto self = session();
  Communicator& world = self->world();
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_TRUE(world.is_one_node());
  double value = 2.5;
  world.all_reduce(std::span(&value, 1), Reduction::sum, "sum");
  EXPECT_EQ(value, 2.5);
  EXPECT_EQ(world.all_gather_text("hello", "text"), std::vector<std::string>{"hello"});
  const int mine[2] = {3, 4};
  int all[2] = {0, 0};
  world.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)), "gather");
  EXPECT_EQ(all[1], 4);
  EXPECT_EQ(world.split(-1, 0, "none"), nullptr);
  EXPECT_EQ(world.split(0, 0, "part")->name(), "part");
  self->close();
}

TEST(SelfSession, SharesZeroedAlignedMemory) {
  const auto self = session();
  const auto segment = self->world().share(1001);
  const auto part = segment->part(0);
  EXPECT_EQ(part.size(), 1001u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part.data()) % 64, 0u);
  for (std::byte b : part) ASSERT_EQ(b, std::byte{0});
  segment->close();
}

TEST(SelfSession, HasNobodyToTalkTo) {
  const auto self = session();
  std::byte byte{};
  EXPECT_THROW((void)self->world().send(std::span(&byte, 1), 1, 0), Error);
  EXPECT_THROW((void)self->world().receive(std::span(&byte, 1), 0, 0), Error);
}

TEST(SelfSession, WaitsEndAtTheDeadline) {
  const auto self = session();
  self->set_deadline(0.01);
  EXPECT_EQ(self->world().deadline_s(), 0.01);
  const Deadline deadline("something that never comes", self->world().deadline_s());
  try {
    for (;;) self->world().poll(deadline, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::comm);
    EXPECT_NE(std::string(error.what()).find("something that never comes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace muster::comm
