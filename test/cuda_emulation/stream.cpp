// Streams and events of the double, and when their work is done. A real GPU may do the work of a stream at any time
// between its enqueueing and the next wait for it; the schedules are the ends of that:
//   eager   at once                                     (the host is never ahead of the device)
//   lazy    only when somebody waits for it             (the device is as late as it may be)
//   ahead   before the next call, all other streams first
#include "cuda_emulation/doubles.hpp"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>

struct CUevent_st;

namespace {

struct Work {
  std::string what;
  std::function<void()> run;
  CUstream_st* waits_for = nullptr;  // with `ticket`: goes on when that stream has done so many
  std::uint64_t ticket = 0;
};

std::string working_on = "no work";
long alive = 0;

enum class Schedule { eager, lazy, ahead };

Schedule schedule() {
  const char* text = std::getenv("EMULATION_SCHEDULE");
  if (text == nullptr || std::strcmp(text, "eager") == 0) return Schedule::eager;
  if (std::strcmp(text, "lazy") == 0) return Schedule::lazy;
  if (std::strcmp(text, "ahead") == 0) return Schedule::ahead;
  emulation::stop(fmt::format("EMULATION_SCHEDULE={}: expected eager, lazy or ahead", text));
}

}  // namespace

struct CUstream_st : emulation::Counted {
  std::deque<Work> queue;
  std::uint64_t enqueued = 0, done = 0;
};
struct CUevent_st : emulation::Counted {
  CUstream_st* stream = nullptr;  // where it was recorded
  std::uint64_t ticket = 0;
};

namespace {

std::set<CUstream_st*> streams;

void run_until(CUstream_st* stream, std::uint64_t ticket) {
  while (stream->done < ticket) {
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (work.waits_for != nullptr && streams.contains(work.waits_for)) run_until(work.waits_for, work.ticket);
    working_on = work.what;
    if (work.run) work.run();
    working_on = "no work";
    ++stream->done;
  }
}

void put(CUstream_st* stream, Work work) {
  if (stream == nullptr || !streams.contains(stream))
    emulation::stop(fmt::format("{}: not on a stream of its own", work.what));
  stream->queue.push_back(std::move(work));
  ++stream->enqueued;
  if (schedule() == Schedule::eager) run_until(stream, stream->enqueued);
  if (schedule() == Schedule::ahead)
    for (CUstream_st* other : streams)
      if (other != stream) run_until(other, other->enqueued);
}

}  // namespace

namespace emulation {

void enqueue(cudaStream_t stream, const std::string& what, std::function<void()> work) {
  put(stream, {what, std::move(work), nullptr, 0});
}
void finish_all_streams() {
  for (CUstream_st* stream : streams) run_until(stream, stream->enqueued);
}
const std::string& current_work() { return working_on; }

Counted::Counted() {
  if (alive++ > 0) return;
  static const bool is_set = [] {
    std::atexit([] {
      if (alive > 0) stop(fmt::format("{} handles are left when the process ends", alive));
    });
    return true;
  }();
  static_cast<void>(is_set);
}
Counted::~Counted() { --alive; }

}  // namespace emulation

using emulation::stop;

extern "C" cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) stop("a stream that waits for the legacy stream");
  *stream = new CUstream_st;
  streams.insert(*stream);
  return cudaSuccess;
}
extern "C" cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  run_until(stream, stream->enqueued);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  run_until(stream, stream->enqueued);
  return cudaSuccess;
}
extern "C" cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
extern "C" cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
extern "C" cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  put(stream, {"an event", nullptr, nullptr, 0});
  event->stream = stream;
  event->ticket = stream->enqueued;
  return cudaSuccess;
}
extern "C" cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream != nullptr && streams.contains(event->stream)) run_until(event->stream, event->ticket);
  return cudaSuccess;
}
extern "C" cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  put(stream, {"a wait for an event", nullptr, event->stream, event->ticket});
  return cudaSuccess;
}
