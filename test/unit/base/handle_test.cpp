// UniqueHandle: exactly one release per handle, whatever is moved where.
#include <muster/base/handle.hpp>

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace muster {
namespace {

std::vector<int>& released() {
  static std::vector<int> handles;
  return handles;
}

struct CountingTraits {
  using type = int;
  static constexpr type empty() { return -1; }
  static void release(type handle) noexcept { released().push_back(handle); }
};
using Handle = UniqueHandle<CountingTraits>;

static_assert(!std::is_copy_constructible_v<Handle>);
static_assert(!std::is_copy_assignable_v<Handle>);
static_assert(std::is_nothrow_move_constructible_v<Handle>);
static_assert(std::is_nothrow_move_assignable_v<Handle>);
static_assert(std::is_nothrow_default_constructible_v<Handle>);
static_assert(!std::is_convertible_v<int, Handle>, "taking ownership must be visible");
static_assert(!std::is_convertible_v<Handle, bool>, "a handle is not a number");
static_assert(sizeof(Handle) == sizeof(int));

class UniqueHandleTest : public testing::Test {
 protected:
  void SetUp() override { released().clear(); }
};

TEST_F(UniqueHandleTest, ReleasesOnceAtTheEndOfItsScope) {
  {
    const Handle handle(7);
    EXPECT_TRUE(static_cast<bool>(handle));
    EXPECT_EQ(handle.get(), 7);
    EXPECT_TRUE(released().empty());
  }
  EXPECT_EQ(released(), std::vector<int>{7});
}

TEST_F(UniqueHandleTest, AnEmptyOneReleasesNothing) {
  {
    const Handle handle;
    EXPECT_FALSE(static_cast<bool>(handle));
    EXPECT_EQ(handle.get(), -1);
  }
  EXPECT_TRUE(released().empty());
}

TEST_F(UniqueHandleTest, ZeroIsAHandleLikeAnyOther) {
  { const Handle handle(0); }
  EXPECT_EQ(released(), std::vector<int>{0});
}

TEST_F(UniqueHandleTest, MovingHandsTheDutyOver) {
  {
    Handle first(1);
    const Handle second(std::move(first));
    EXPECT_FALSE(static_cast<bool>(first));  // NOLINT(bugprone-use-after-move): the empty state is promised
    EXPECT_EQ(second.get(), 1);
    EXPECT_TRUE(released().empty());
  }
  EXPECT_EQ(released(), std::vector<int>{1});
}

TEST_F(UniqueHandleTest, AssigningReleasesTheOldFirst) {
  {
    Handle first(1), second(2);
    second = std::move(first);
    EXPECT_EQ(released(), std::vector<int>{2});
    EXPECT_EQ(second.get(), 1);
  }
  EXPECT_EQ(released(), (std::vector<int>{2, 1}));
}

TEST_F(UniqueHandleTest, SelfMoveKeepsTheHandle) {
  {
    Handle handle(3);
    Handle& same = handle;
    handle = std::move(same);
    EXPECT_EQ(handle.get(), 3);
    EXPECT_TRUE(released().empty());
  }
  EXPECT_EQ(released(), std::vector<int>{3});
}

TEST_F(UniqueHandleTest, DetachGivesUpWithoutReleasing) {
  {
    Handle handle(4);
    EXPECT_EQ(handle.detach(), 4);
    EXPECT_FALSE(static_cast<bool>(handle));
  }
  EXPECT_TRUE(released().empty());
}

TEST_F(UniqueHandleTest, ResetReplaces) {
  Handle handle(5);
  handle.reset(6);
  EXPECT_EQ(released(), std::vector<int>{5});
  handle.reset();
  EXPECT_EQ(released(), (std::vector<int>{5, 6}));
  handle.reset();
  EXPECT_EQ(released().size(), 2u);
}

TEST_F(UniqueHandleTest, AContainerOfThemReleasesEachOnce) {
  {
    std::vector<Handle> handles;
    for (int i = 0; i < 20; ++i) handles.emplace_back(i);  // grows, and so moves, several times
    EXPECT_TRUE(released().empty());
  }
  EXPECT_EQ(released().size(), 20u);
}

}  // namespace
}  // namespace muster
