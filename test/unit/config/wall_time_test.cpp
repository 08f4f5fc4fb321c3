// run.wall_time in all its forms.
#include "testing.hpp"

namespace muster::config::testing {
namespace {

std::string config_with(const std::string& text) { return with("epochs: 2", "epochs: 2, wall_time: " + text); }

TEST(WallTime, TakesEveryForm) {
  const std::pair<const char*, double> forms[] = {{"90 s", 90},          {"1.5 min", 90},  {"2 h", 7200},
                                                  {"0.5 d", 43200},      {"00:01:30", 90}, {"48:00:00", 172800},
                                                  {"1-02:03:04", 93784}, {"'00:00:01'", 1}};
  for (const auto& [text, seconds] : forms) {
    const auto read = load_quietly(config_with(text)).config.run.wall_time;
    EXPECT_FALSE(read.is_auto) << text;
    EXPECT_EQ(read.seconds, seconds) << text;
  }
  EXPECT_TRUE(load_quietly(minimal).config.run.wall_time.is_auto);
  EXPECT_TRUE(load_quietly(config_with("auto")).config.run.wall_time.is_auto);
  const auto off = load_quietly(config_with("never")).config.run.wall_time;
  EXPECT_FALSE(off.is_auto);
  EXPECT_EQ(off.seconds, 0);
}

TEST(WallTime, RefusesEverythingElse) {
  for (const char* text : {"90", "-1 s", "0 s", "00:00:00", "1:2:3", "00:60:00", "00:00:60", "1-24:00:00",
                           "-1-00:00:01", "5 weeks", "1e300 s", "[90, s]", "12:30", "s", "''"}) {
    const Lines lines = problems_of(config_with(text));
    ASSERT_EQ(lines.size(), 1u) << text;
    EXPECT_NE(lines[0].find("run.wall_time"), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("HH:MM:SS"), std::string::npos) << lines[0];
  }
}

TEST(WallTime, GoesRoundThroughTheEffectiveConfig) {
  for (const char* text : {"auto", "never", "93784.5 s"}) {
    const auto first = load_quietly(config_with(text));
    EXPECT_NE(first.effective_yaml.find(std::string("wall_time: ") + text), std::string::npos) << first.effective_yaml;
    EXPECT_EQ(load_quietly(first.effective_yaml).effective_yaml, first.effective_yaml);
  }
}

}  // namespace
}  // namespace muster::config::testing
