// Shapes: counting elements, also those that cannot be counted.
#include <muster/base/error.hpp>
#include <muster/tensor/shape.hpp>

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{7}).elements(), 7);
  EXPECT_EQ((Shape{2, 3, 5}).elements(), 30);
  EXPECT_EQ((Shape{4, 0, 9}).elements(), 0);
  EXPECT_EQ((Shape{1, 28, 28}).batched(10).elements(), 7840);
}

TEST(Shape, RefusesMoreElementsThanFit) {
  const std::int64_t large = std::int64_t{1} << 31;
  EXPECT_EQ((Shape{large, large}).elements(), std::int64_t{1} << 62);
  try {
    static_cast<void>(Shape{large, large, 2}.elements());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("[2147483648, 2147483648, 2]"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace muster
