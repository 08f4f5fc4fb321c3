#include <muster/base/clock.hpp>

#include <unistd.h>
#include <chrono>
#include <fstream>
#include <sstream>

namespace muster {

double now_s() noexcept {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double since_process_start_s() {
  // Field 22 of /proc/self/stat counts clock ticks from boot to the start; the command name may hold spaces, so count
  // from the closing bracket.
  std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
  std::string text;
  double up_s = 0;
  if (!std::getline(stat, text) || !(uptime >> up_s)) return 0;
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return up_s - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace muster
