// Fibers: each has a stack of its own; the scheduler of a block runs them one after the other to the next barrier.
// Kernels whose first block came to no barrier run without fibers from then on.
#include "cuda_emulation/kernel.hpp"
#include "cuda_emulation/fiber.hpp"

#include <sys/mman.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#if defined(__x86_64__)
asm(R"(
.text
.globl emulation_switch_stack
.hidden emulation_switch_stack
.type emulation_switch_stack, @function
emulation_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulation_switch_stack, .-emulation_switch_stack
)");
#endif

namespace emulation {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;

enum class State { fresh, waiting, done };

struct Fiber {
  StackPointer context{};
  void* stack = nullptr;
  State state = State::done;
  Thread place;
};

struct SharedEntry {
  std::vector<std::byte> bytes;
  std::vector<Use> uses;
};

/// Everything of the block that runs.
struct Block {
  std::string kernel;
  const std::function<void()>* body = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers;
  Fiber* running = nullptr;
  StackPointer scheduler{};
  bool has_fibers = true;
  unsigned epoch = 0;
  std::map<const void*, SharedEntry> shared;
};
Block block;

void run_fiber() {
  (*block.body)();
  block.running->state = State::done;
  switch_to(block.running->context, block.scheduler);
  stop("a fiber went on behind its end");
}

Fiber& fiber(std::size_t number) {
  while (block.fibers.size() <= number) {
    auto made = std::make_unique<Fiber>();
    made->stack = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (made->stack == MAP_FAILED) stop("no memory for the stacks of fibers");
    block.fibers.push_back(std::move(made));
  }
  return *block.fibers[number];
}

void start(Fiber& f, const Thread& place) {
  f.place = place;
  f.state = State::fresh;
  prepare(f.context, f.stack, stack_bytes, run_fiber);
}

void resume(Fiber& f) {
  block.running = &f;
  switch_to(block.scheduler, f.context);
  block.running = nullptr;
}

Thread place_of(int number, uint3 index, dim3 grid, dim3 extent) {
  const auto n = static_cast<unsigned>(number);
  return {{n % extent.x, n / extent.x % extent.y, n / extent.x / extent.y}, index, extent, grid, number};
}

/// Kernels that are known to come to no barrier.
std::set<const void*>& plain_kernels() {
  static std::set<const void*> kernels;
  return kernels;
}

void run_plain_block(uint3 index, dim3 grid, dim3 extent) {
  const int threads = static_cast<int>(extent.x * extent.y * extent.z);
  Fiber thread;
  block.running = &thread;
  for (int t = 0; t < threads; ++t) {
    thread.place = place_of(t, index, grid, extent);
    (*block.body)();
  }
  block.running = nullptr;
}

void run_block(uint3 index, dim3 grid, dim3 extent) {
  const int threads = static_cast<int>(extent.x * extent.y * extent.z);
  int waiting = 0;
  for (int t = 0; t < threads; ++t) {
    Fiber& f = fiber(static_cast<std::size_t>(t));
    start(f, place_of(t, index, grid, extent));
    resume(f);
    waiting += f.state == State::waiting;
  }
  while (waiting > 0) {
    if (waiting != threads)
      stop(fmt::format("{}: {} of {} threads of block {} wait at a barrier that the others never reach", block.kernel,
                       waiting, threads, index.x));
    ++block.epoch;
    waiting = 0;
    for (int t = 0; t < threads; ++t) {
      // Every other time from the last to the first: the order of threads must not matter.
      Fiber& f = fiber(static_cast<std::size_t>(block.epoch % 2 == 0 ? t : threads - 1 - t));
      resume(f);
      waiting += f.state == State::waiting;
    }
  }
}

}  // namespace

const Thread& this_thread() { return block.running->place; }
unsigned epoch() { return block.epoch; }

void wait_for_block() {
  if (!block.has_fibers) stop(fmt::format("{}: a barrier that the first block did not come to", block.kernel));
  Fiber& me = *block.running;
  me.state = State::waiting;
  switch_to(me.context, block.scheduler);
}

void run_grid(const std::string& name, const void* kernel, dim3 grid, dim3 extent, const std::function<void()>& body) {
  block.kernel = name;
  block.body = &body;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block.epoch = 0;
        block.shared.clear();
        block.has_fibers = !plain_kernels().contains(kernel);
        if (!block.has_fibers) {
          run_plain_block({x, y, z}, grid, extent);
          continue;
        }
        run_block({x, y, z}, grid, extent);
        if (block.epoch == 0 && block.shared.empty()) plain_kernels().insert(kernel);
      }
}

SharedStorage shared_storage(const void* key, std::size_t bytes, int count) {
  SharedEntry& entry = block.shared[key];
  if (entry.bytes.empty()) {
    entry.bytes.assign(bytes, std::byte{0xFF});
    entry.uses.assign(static_cast<std::size_t>(count), {});
    std::size_t all = 0;
    for (const auto& [other, it] : block.shared) all += it.bytes.size();
    if (all > 48 << 10) stop(fmt::format("{}: {} bytes of shared memory", block.kernel, all));
  }
  return {entry.bytes.data(), entry.uses.data()};
}

void note_read(Use& use, const char* name, int index) {
  const int me = block.running->place.number;
  if (use.writer >= 0 && use.writer != me && use.written_at == block.epoch)
    stop(fmt::format("{}: race on {}[{}]: thread {} reads what thread {} wrote, no barrier between", block.kernel, name,
                     index, me, use.writer));
  const bool is_new = use.reader < 0 || use.read_at != block.epoch;
  use.has_many_readers = !is_new && (use.has_many_readers || use.reader != me);
  use.reader = me;
  use.read_at = block.epoch;
}

void note_write(Use& use, const char* name, int index) {
  const int me = block.running->place.number;
  const bool was_written = use.writer >= 0 && use.writer != me && use.written_at == block.epoch;
  const bool was_read = use.reader >= 0 && use.read_at == block.epoch && (use.reader != me || use.has_many_readers);
  if (was_written || was_read)
    stop(fmt::format("{}: race on {}[{}]: thread {} writes what thread {} {}, no barrier between", block.kernel, name,
                     index, me, was_written ? use.writer : use.reader, was_written ? "wrote" : "read"));
  use.writer = me;
  use.written_at = block.epoch;
}

void stop_out_of_bounds(const char* name, int index, int count) {
  stop(fmt::format("{}: index {} of the shared array {}[{}]", block.kernel, index, name, count));
}

}  // namespace emulation
