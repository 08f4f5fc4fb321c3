// Parameter servers against what the memory, or the network, gives: pull and push of a model against a plain copy of as
// many bytes, and the application of an update (momentum) against the bandwidth of a triad, in turns in one run. Two
// ranks: rank 0 serves, rank 1 measures; over several hosts the peer of a copy is a message (MPI send and receive).
// Fails where a share is below the floor.
//   mpirun -n 2 bench_servers [MiB = 64] [shared | general]
#include <muster/base/clock.hpp>
#include <muster/base/error.hpp>
#include <muster/comm/session.hpp>
#include <muster/optim/optimizer.hpp>
#include <muster/parallel/server/client.hpp>
#include <muster/parallel/server/coordinator.hpp>
#include <muster/parallel/server/shard_server.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using namespace muster;

constexpr int rounds = 9;
constexpr double floor_share = 0.8;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + rounds / 2, values.end());
  return values[rounds / 2];
}

template <class Action>
double seconds(const Action& action) {
  const Stopwatch watch;
  action();
  return watch.elapsed_s();
}

struct Setup {
  comm::Communicator& world;
  std::int64_t elements;
  parallel::Roles roles{1, 1, 0};
  parallel::Shards shards;
  std::vector<optim::ParamRun> runs;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<comm::Window> window;

  Setup(comm::Communicator& its_world, std::int64_t count, comm::WindowKind kind)
      : world(its_world), elements(count), runs{{"w", {0, count}, true}} {
    shards = parallel::cut_shards(count, 0, 1, false, runs);
    optim::OptimizerOptions options;
    options.kind = "momentum";
    options.momentum = 0.9;
    options.lr = 0.1;
    optimizer = optim::make_optimizer(options);
    window = world.window(world.rank() == 0 ? parallel::ShardServer::window_bytes(roles, shards, 0, sizes()) : 0, kind);
  }
  static parallel::WindowSizes sizes() { return {1, 1, 0}; }
};

bool report(const char* what, double bytes, double own_s, const char* peer, double peer_s) {
  const double share = peer_s / own_s;
  std::printf("%s: %.2f GB/s, %s %.2f GB/s = %.2f of it%s\n", what, bytes / own_s * 1e-9, peer, bytes / peer_s * 1e-9,
              share, share >= floor_share ? "" : "  BELOW THE FLOOR");
  std::fflush(stdout);
  return share >= floor_share;
}

/// The server: answers until the worker is done; then measures its own updates.
bool serve(Setup& setup, bool has_messages) {
  parallel::ShardServer server(*setup.window, setup.roles, setup.shards, setup.sizes(), 0, *setup.optimizer, setup.runs,
                               1);
  const std::vector<float> zero(static_cast<std::size_t>(setup.elements));
  server.start(0, zero, {zero});
  parallel::LeaseBook book({0, 1}, {}, 1, {});
  const parallel::Coordinator opens_the_desk(*setup.window, setup.roles, setup.shards, setup.sizes(), server, book,
                                             [](std::int64_t, std::int64_t) { return 0.1; },
                                             {60, {}, 0, [](int) { return std::int64_t{1}; }, 0});
  setup.world.barrier("servers are ready");
  std::vector<float> incoming(has_messages ? zero.size() : 0);
  for (int r = 0; r < 2 * rounds; ++r) {  // the worker's pulls, then its pushes
    char done = 0;
    auto word = setup.world.receive(comm::bytes_of(std::span(&done, 1)), 1, 1);
    while (!word->test()) setup.window->progress();
    if (!has_messages) continue;
    const auto message = setup.world.receive(comm::bytes_of(std::span(incoming)), 1, 2);
    while (!message->test()) {
    }
  }
  std::vector<double> apply_s, triad_s;
  std::vector<float> a(zero.size()), b(zero.size(), 1.0f), c(zero.size(), 2.0f);
  for (int r = 0; r < rounds; ++r) {
    apply_s.push_back(seconds([&] { server.apply({{{0, 1}}, 1, 1.0, 0.1, false}); }));
    triad_s.push_back(seconds([&] {
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = b[i] + 0.5f * c[i];
    }));
  }
  // An update reads weights, gradient and momentum and writes weights and momentum: five words; a triad three.
  const double words = static_cast<double>(setup.elements) * 4;
  return report("apply of momentum", 5 * words, median(apply_s), "triad", median(triad_s) * 5 / 3);
}

bool work(Setup& setup, bool has_messages) {
  setup.world.barrier("servers are ready");
  parallel::ServerClient client(*setup.window, setup.roles, setup.shards, setup.sizes(), 0, [] { return false; },
                                {60, 1});
  std::vector<float> weights(static_cast<std::size_t>(setup.elements), 1.0f), other(weights.size(), 1.0f);
  const double bytes = static_cast<double>(setup.elements) * 4;
  const Range all{0, setup.elements};
  bool is_good = true;
  for (const bool pulls : {true, false}) {
    std::vector<double> own_s, peer_s;
    for (int r = 0; r < rounds; ++r) {
      own_s.push_back(seconds([&] {
        if (pulls) {
          client.forget();
          client.pull(weights, {}, -1);
        } else {
          client.push(0, all, weights);
          setup.window->flush(0);
        }
      }));
      const char done = 1;
      auto word = setup.world.send(comm::bytes_of(std::span<const char>(&done, 1)), 0, 1);
      while (!word->test()) {
      }
      peer_s.push_back(seconds([&] {
        if (!has_messages) {
          std::memcpy(other.data(), weights.data(), weights.size() * sizeof(float));
          return;
        }
        const auto message = setup.world.send(comm::bytes_of(std::span<const float>(other)), 0, 2);
        while (!message->test()) {
        }
      }));
    }
    is_good &= report(pulls ? "pull" : "push", bytes, median(own_s), has_messages ? "message" : "copy", median(peer_s));
  }
  return is_good;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t mib = argc > 1 ? std::atoll(argv[1]) : 64;
  const bool is_general = argc > 2 && std::strcmp(argv[2], "general") == 0;
  const auto session = comm::start_session({});
  if (session->world().size() != 2) {
    std::fprintf(stderr, "bench_servers: start it on 2 ranks\n");
    return 2;
  }
  Setup setup(session->world(), mib * 1024 * 256, is_general ? comm::WindowKind::general : comm::WindowKind::shared);
  const bool is_good = session->world().rank() == 0 ? serve(setup, is_general) : work(setup, is_general);
  setup.world.barrier("end");
  setup.window->close();
  session->close();
  return is_good ? 0 : 1;
}
