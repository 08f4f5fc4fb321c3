// Every spelling of a number that a config may use, and those it must refuse.
#include "config/number.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace muster::config {
namespace {

TEST(Number, TakesEveryYamlSpellingOfAFloat) {
  const std::pair<const char*, double> spellings[] = {{"1e-4", 0.0001},
                                                      {"1e-04", 0.0001},
                                                      {"1E-4", 0.0001},
                                                      {"0.0001", 0.0001},
                                                      {".0001", 0.0001},
                                                      {"1.e-4", 0.0001},
                                                      {"+1e-4", 0.0001},
                                                      {".5", 0.5},
                                                      {"1.", 1.0},
                                                      {"+1", 1.0},
                                                      {"-1", -1.0},
                                                      {"-.5", -0.5},
                                                      {"1e+2", 100.0},
                                                      {"1e2", 100.0},
                                                      {"1e02", 100.0},
                                                      {"007.5", 7.5},
                                                      {"0", 0.0},
                                                      {"-0", 0.0},
                                                      {"12345678901234567890", 12345678901234567890.0}};
  for (const auto& [text, value] : spellings) {
    ASSERT_TRUE(parse_double(text)) << text;
    EXPECT_EQ(*parse_double(text), value) << text;
    ASSERT_TRUE(parse_float(text)) << text;
    EXPECT_EQ(*parse_float(text), static_cast<float>(value)) << text;
  }
}

TEST(Number, RefusesWhatIsNoFiniteFloat) {
  for (const char* text : {"",      ".",    "e5",  "1e",  "1e+",   "--1", "+-1", "1_000.0", "1,5",   "0x1p3", ".inf",
                           "-.inf", ".nan", "inf", "nan", "1.2.3", "1 ",  " 1",  "1f",      "1e999", "abc",   "1e5.0"})
    EXPECT_FALSE(parse_double(text)) << text;
  EXPECT_FALSE(parse_float("1e39"));
  EXPECT_TRUE(parse_double("1e39"));
}

TEST(Number, IntegersAreDecimalDigitsOnly) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("+17"), 17);
  EXPECT_EQ(parse_integer("-17"), -17);
  EXPECT_EQ(parse_integer("9223372036854775807"), 9223372036854775807);
  for (const char* text :
       {"", "+", "-", "1_000", "0x10", "010", "0o10", "1.0", "1e3", "9223372036854775808", "+-1", "1 000", "one"})
    EXPECT_FALSE(parse_integer(text)) << text;
  EXPECT_EQ(parse_unsigned("18446744073709551615"), 18446744073709551615u);
  EXPECT_FALSE(parse_unsigned("18446744073709551616"));
  EXPECT_FALSE(parse_unsigned("-1"));
}

TEST(Number, Booleans) {
  for (const char* text : {"true", "True", "TRUE", "yes", "Yes", "YES"}) EXPECT_EQ(parse_boolean(text), true) << text;
  for (const char* text : {"false", "False", "FALSE", "no", "No", "NO"}) EXPECT_EQ(parse_boolean(text), false) << text;
  for (const char* text : {"", "on", "off", "1", "0", "y", "n", "tRue"}) EXPECT_FALSE(parse_boolean(text)) << text;
}

TEST(Number, TextIsReadBackToTheSameValue) {
  for (const double value : {0.1, 1e-8, 1.0 / 3.0, 123456789.125, 5e-324, 1.7976931348623157e308})
    EXPECT_EQ(parse_double(number_text(value)), value);
  for (const float value : {0.1f, 1e-5f, 1.0f / 3.0f, 16777216.0f, std::nextafter(0.1f, 1.0f)})
    EXPECT_EQ(parse_float(number_text(value)), value);
}

}  // namespace
}  // namespace muster::config
