#include <muster/comm/lifeline.hpp>

#include <muster/base/error.hpp>
#include <muster/base/text.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

namespace muster::comm {
namespace {

constexpr int answer_time_ms = 3000;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

std::uint64_t draw_token() {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != sizeof token) token = static_cast<std::uint64_t>(::getpid());
  return token;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    if ((at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    sockaddr_in address{};
    std::memcpy(&address, at->ifa_addr, sizeof address);
    if (::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text) != nullptr) found.emplace_back(text);
  }
  ::freeifaddrs(first);
  return found;
}

bool waits_until(int descriptor, short event) {
  pollfd what{descriptor, event, 0};
  int ready = 0;
  do {
    ready = ::poll(&what, 1, answer_time_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) errno = ETIMEDOUT;
  return ready > 0;
}

bool sends(int descriptor, std::uint64_t word) {
  return ::send(descriptor, &word, sizeof word, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof word);
}
bool receives(int descriptor, std::uint64_t& word) {
  if (!waits_until(descriptor, POLLIN)) return false;
  const ssize_t got = ::recv(descriptor, &word, sizeof word, MSG_DONTWAIT);
  if (got == static_cast<ssize_t>(sizeof word)) return true;
  if (got >= 0) errno = ECONNRESET;
  return false;
}

/// A connection whose other end has answered with the token; closed, with errno, where there is none.
Socket connect_to(const std::string& address, std::uint16_t port, std::uint64_t token) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS)
    return Socket();
  if (!waits_until(socket.get(), POLLOUT)) return Socket();
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  std::uint64_t answer = 0;
  if (error != 0 || !sends(socket.get(), token) || !receives(socket.get(), answer)) return Socket();
  errno = EPROTO;  // somebody else has this address in our network
  return answer == token ? std::move(socket) : Socket();
}

Socket listen_somewhere(std::uint16_t& port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof any;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), size) != 0 || ::listen(socket.get(), 4096) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0)
    fail(ExitCode::comm, "cannot listen on a TCP port: {}", std::strerror(errno));
  port = ntohs(any.sin_port);
  return socket;
}

}  // namespace

struct Lifeline::Impl {
  struct Watched {
    int rank;
    Socket socket;
    bool has_said_farewell = false;
  };

  void run();
  void answer();
  void listen_to(Watched& watched);
  void tie(Communicator& world, int rank, const std::string& there);

  std::function<void(int)> on_loss;
  std::uint64_t token = draw_token();
  Socket listener;
  Socket wake_read, wake_write;
  std::vector<Watched> watched;
  std::vector<std::string> untied;
  std::mutex mutex;          // guards tied
  std::vector<Socket> tied;  // ranks that watch this one
  std::thread thread;
};

/// Somebody connects: who knows the token is answered.
void Lifeline::Impl::answer() {
  Socket other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::uint64_t word = 0;
  if (!other.is_open() || !receives(other.get(), word) || word != token || !sends(other.get(), token)) return;
  const std::lock_guard lock(mutex);
  tied.push_back(std::move(other));
}

void Lifeline::Impl::listen_to(Watched& one) {
  char byte = 0;
  const ssize_t got = ::recv(one.socket.get(), &byte, 1, MSG_DONTWAIT);
  if (got > 0) one.has_said_farewell = true;
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  one.socket = Socket();
  if (!one.has_said_farewell) on_loss(one.rank);
}

void Lifeline::Impl::run() {
  for (;;) {
    std::vector<pollfd> all{{wake_read.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    for (const Watched& one : watched)
      all.push_back({one.socket.get(), POLLIN, 0});  // a closed one (-1) is passed over
    if (::poll(all.data(), all.size(), -1) < 0) continue;
    if (all[0].revents != 0) return;
    if (all[1].revents != 0) answer();
    for (std::size_t i = 0; i < watched.size(); ++i)
      if (all[i + 2].revents != 0) listen_to(watched[i]);
  }
}

/// there: "token port address address ..." of a watched rank.
void Lifeline::Impl::tie(Communicator& world, int rank, const std::string& there) {
  const std::vector<std::string> words = split(there, ' ');
  const std::uint64_t its_token = std::stoull(words.at(0));
  const auto port = static_cast<std::uint16_t>(std::stoul(words.at(1)));
  const std::vector<std::string> own = own_addresses();
  std::vector<std::string> addresses{words.begin() + 2, words.end()};
  const bool is_here = world.host(rank) == world.host(world.rank());
  if (is_here) addresses = {"127.0.0.1"};
  std::string reason = "it has no address";
  for (const std::string& address : addresses) {
    // (private networks of containers: every host has the same address in one of its own)
    if (!is_here && std::find(own.begin(), own.end(), address) != own.end()) continue;
    if (Socket socket = connect_to(address, port, its_token); socket.is_open()) {
      watched.push_back({rank, std::move(socket)});
      return;
    }
    reason = std::strerror(errno);
  }
  untied.push_back(fmt::format("rank {} on {}: {}", rank, world.host(rank), reason));
}

Lifeline::Lifeline(Communicator& world, int watched, std::function<void(int)> on_loss)
    : impl_(std::make_unique<Impl>()) {
  Impl& my = *impl_;
  my.on_loss = std::move(on_loss);
  std::uint16_t port = 0;
  my.listener = listen_somewhere(port);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(ExitCode::comm, "no pipe: {}", std::strerror(errno));
  my.wake_read = Socket(ends[0]);
  my.wake_write = Socket(ends[1]);
  std::string mine = fmt::format("{} {}", my.token, port);
  for (const std::string& address : own_addresses()) mine += " " + address;
  my.thread = std::thread([&my] { my.run(); });  // answers while the others are being tied
  const auto everybody = world.all_gather_text(mine, "addresses for lifelines");
  std::vector<Impl::Watched> found;
  Impl ties;  // filled here; the thread may not see a half-made list
  for (int rank = 0; rank < watched; ++rank)
    if (rank != world.rank()) ties.tie(world, rank, everybody[static_cast<std::size_t>(rank)]);
  my.untied = std::move(ties.untied);
  world.barrier("lifelines are tied");
  // The thread starts anew with the list.
  [[maybe_unused]] const auto woken = ::write(my.wake_write.get(), "w", 1);
  my.thread.join();
  char byte = 0;
  [[maybe_unused]] const auto taken = ::read(my.wake_read.get(), &byte, 1);
  my.watched = std::move(ties.watched);
  my.thread = std::thread([&my] { my.run(); });
}

Lifeline::~Lifeline() {
  [[maybe_unused]] const auto woken = ::write(impl_->wake_write.get(), "w", 1);
  impl_->thread.join();
}

void Lifeline::say_farewell() {
  const std::lock_guard lock(impl_->mutex);
  for (const Socket& other : impl_->tied) ::send(other.get(), "e", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

const std::vector<std::string>& Lifeline::untied() const { return impl_->untied; }

}  // namespace muster::comm
