// Helpers of messages.
#include <muster/base/text.hpp>

#include <gtest/gtest.h>

namespace muster {
namespace {

using Words = std::vector<std::string>;

TEST(HumanBytes, PicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(17), "17 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(312 * 1024), "312 KiB");
  EXPECT_EQ(human_bytes(3ull << 29), "1.5 GiB");
  EXPECT_EQ(human_bytes(~0ull), "16384 PiB");
}

TEST(HumanSeconds, PicksTheUnit) {
  EXPECT_EQ(human_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(human_seconds(4.21), "4.21 s");
  EXPECT_EQ(human_seconds(185), "3 m 05 s");
  EXPECT_EQ(human_seconds(3720), "1 h 02 m");
  EXPECT_EQ(human_seconds(90000), "25 h 00 m");
}

TEST(HumanSeconds, NeverShowsSixtySeconds) {
  EXPECT_EQ(human_seconds(119.7), "2 m 00 s");
  EXPECT_EQ(human_seconds(3599.9), "1 h 00 m");
}

TEST(DidYouMean, FindsSlipsOfTheFingers) {
  const Words keys = {"momentum", "weight_decay", "lr", "beta1", "beta2"};
  EXPECT_EQ(did_you_mean("momentun", keys), "; did you mean 'momentum'?");   // substituted
  EXPECT_EQ(did_you_mean("momentm", keys), "; did you mean 'momentum'?");    // left out
  EXPECT_EQ(did_you_mean("moomentum", keys), "; did you mean 'momentum'?");  // doubled
  EXPECT_EQ(did_you_mean("momnetum", keys), "; did you mean 'momentum'?");   // swapped
  EXPECT_EQ(did_you_mean("wieghtdecay", keys), "; did you mean 'weight_decay'?");
  EXPECT_EQ(nearest("rl", keys), "lr");
}

TEST(DidYouMean, IsSilentForStrangers) {
  const Words keys = {"momentum", "weight_decay", "lr"};
  EXPECT_EQ(did_you_mean("epochs", keys), "");
  EXPECT_EQ(did_you_mean("momentum", Words{}), "");
  EXPECT_EQ(nearest("", keys), "");
}

TEST(DidYouMean, PrefersTheNearest) {
  EXPECT_EQ(nearest("conv2", Words{"conv", "conv2d", "conv3d_x"}), "conv");  // a tie goes to the first
  EXPECT_EQ(nearest("batchnorm", Words{"layer_norm", "batch_norm"}), "batch_norm");
}

TEST(JoinAndSplit, AreInverse) {
  const Words parts = {"a", "", "bc"};
  EXPECT_EQ(join(parts, ","), "a,,bc");
  EXPECT_EQ(split("a,,bc", ','), parts);
  EXPECT_EQ(split("", ','), Words{""});
  EXPECT_EQ(split(",", ','), (Words{"", ""}));
  EXPECT_EQ(join(Words{}, ", "), "");
}

}  // namespace
}  // namespace muster
