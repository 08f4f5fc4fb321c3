// The emulation catches what it promises: each test plants one mistake and expects the process to end with its name.
#include "device/cuda/language.cuh"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

namespace {

constexpr int stopped = 134;
constexpr int threads = 64;

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

float* new_floats(std::size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, count * sizeof(float)), cudaSuccess);
  return static_cast<float*>(memory);
}

float* new_pinned(std::size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaHostAlloc(&memory, count * sizeof(float), 0), cudaSuccess);
  return static_cast<float*>(memory);
}

__global__ void fill(float* to, float value, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) to[i] = value;
}
/// Sum of `count` <= threads values; with the barrier as it should be.
__global__ void good_sum(const float* from, float* to) {
  GPU_SHARED(float, room, threads);
  const int t = static_cast<int>(threadIdx.x);
  room[t] = from[t];
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (t < half) room[t] = room[t] + room[t + half];
    __syncthreads();
  }
  if (t == 0) to[0] = room[0];
}
__global__ void no_barrier_before_read(const float* from, float* to) {
  GPU_SHARED(float, room, threads);
  const int t = static_cast<int>(threadIdx.x);
  room[t] = from[t];
  to[t] = room[threads - 1 - t];
  __syncthreads();
}
__global__ void no_barrier_before_write(const float* from, float* to) {
  GPU_SHARED(float, room, threads);
  const int t = static_cast<int>(threadIdx.x);
  room[t] = from[t];
  __syncthreads();
  to[t] = room[(t + 1) % threads];
  room[t] = 0.0f;
  __syncthreads();
}
__global__ void barrier_for_some(float* to) {
  if (threadIdx.x < threads / 2) __syncthreads();
  to[threadIdx.x] = 1.0f;
}
__global__ void beyond_shared(float* to) {
  GPU_SHARED(float, room, threads);
  room[static_cast<int>(threadIdx.x) + 1] = 0.0f;
  __syncthreads();
  to[0] = 0.0f;
}

TEST(Emulation, RunsAGoodKernelUnderEverySchedule) {
  for (const char* schedule : {"eager", "lazy", "ahead"}) {
    ::setenv("EMULATION_SCHEDULE", schedule, 1);
    cudaStream_t stream = new_stream();
    float *device = new_floats(threads), *sum = new_floats(1), *host = new_pinned(threads);
    for (int i = 0; i < threads; ++i) host[i] = static_cast<float>(i);
    cudaMemcpyAsync(device, host, threads * sizeof(float), cudaMemcpyHostToDevice, stream);
    GPU_LAUNCH(good_sum, 1, threads, stream, device, sum);
    cudaMemcpyAsync(host, sum, sizeof(float), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    EXPECT_EQ(host[0], 64 * 63 / 2) << schedule;
    cudaFree(device);
    cudaFree(sum);
    cudaFreeHost(host);
    cudaStreamDestroy(stream);
  }
  ::unsetenv("EMULATION_SCHEDULE");
}

TEST(Emulation, FindsRacesAndBarriersThatSomeNeverReach) {
  const auto run = [](auto kernel_launch) {
    cudaStream_t stream = new_stream();
    float *from = new_floats(threads), *to = new_floats(threads);
    GPU_LAUNCH(fill, 1, threads, stream, from, 1.0f, threads);
    kernel_launch(stream, from, to);
    std::_Exit(0);
  };
  EXPECT_EXIT(run([](cudaStream_t s, float* a, float* b) { GPU_LAUNCH(no_barrier_before_read, 1, threads, s, a, b); }),
              testing::ExitedWithCode(stopped), "no_barrier_before_read: race on room");
  EXPECT_EXIT(run([](cudaStream_t s, float* a, float* b) { GPU_LAUNCH(no_barrier_before_write, 1, threads, s, a, b); }),
              testing::ExitedWithCode(stopped), "no_barrier_before_write: race on room");
  EXPECT_EXIT(run([](cudaStream_t s, float*, float* b) { GPU_LAUNCH(barrier_for_some, 1, threads, s, b); }),
              testing::ExitedWithCode(stopped), "32 of 64 threads of block 0 wait at a barrier");
  EXPECT_EXIT(run([](cudaStream_t s, float*, float* b) { GPU_LAUNCH(beyond_shared, 1, threads, s, b); }),
              testing::ExitedWithCode(stopped), "index 64 of the shared array room\\[64\\]");
}

TEST(Emulation, GuardsDeviceMemory) {
  float* device = new_floats(100);
  EXPECT_DEATH(*static_cast<volatile float*>(device) = 1.0f, "the host touched device memory");
  EXPECT_DEATH(GPU_LAUNCH(fill, 1, threads, new_stream(), device, 1.0f, 129),
               "access beyond an allocation of device memory in fill");
  std::vector<float> host(100);
  EXPECT_EXIT(GPU_LAUNCH(fill, 1, threads, new_stream(), host.data(), 1.0f, 1), testing::ExitedWithCode(stopped),
              "an argument of fill: .* is not device memory");
  EXPECT_EXIT(cudaMemcpyAsync(device, host.data(), 4, cudaMemcpyHostToDevice, new_stream()),
              testing::ExitedWithCode(stopped), "not pinned");
  EXPECT_EXIT(cudaMemsetAsync(device, 0, 1000, new_stream()), testing::ExitedWithCode(stopped),
              "1000 bytes, but only 512 are left");
  EXPECT_EXIT(cudaFree(device + 1), testing::ExitedWithCode(stopped), "was not allocated");
  cudaFree(device);
  EXPECT_EXIT(GPU_LAUNCH(fill, 1, threads, new_stream(), device, 1.0f, 1), testing::ExitedWithCode(stopped),
              "is not device memory");
}

TEST(Emulation, LeftHandlesAreFound) {
  EXPECT_EXIT(
      {
        new_stream();
        std::exit(0);
      },
      testing::ExitedWithCode(stopped), "1 handles are left");
}

/// What the host reads without waiting, and a second stream that does not wait for the first.
struct Seen {
  float without_wait, with_wait;
};
Seen race_of_host(const char* schedule) {
  ::setenv("EMULATION_SCHEDULE", schedule, 1);
  cudaStream_t stream = new_stream();
  float *device = new_floats(1), *host = new_pinned(1);
  host[0] = -1;
  GPU_LAUNCH(fill, 1, threads, stream, device, 5.0f, 1);
  cudaMemcpyAsync(host, device, sizeof(float), cudaMemcpyDeviceToHost, stream);
  Seen seen{host[0], 0};
  cudaStreamSynchronize(stream);
  seen.with_wait = host[0];
  cudaFree(device);
  cudaFreeHost(host);
  cudaStreamDestroy(stream);
  ::unsetenv("EMULATION_SCHEDULE");
  return seen;
}
float race_of_streams(const char* schedule, bool waits) {
  ::setenv("EMULATION_SCHEDULE", schedule, 1);
  cudaStream_t first = new_stream(), second = new_stream();
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  float *device = new_floats(1), *host = new_pinned(1);
  GPU_LAUNCH(fill, 1, threads, first, device, 5.0f, 1);
  cudaEventRecord(event, first);
  if (waits) cudaStreamWaitEvent(second, event, 0);
  cudaMemcpyAsync(host, device, sizeof(float), cudaMemcpyDeviceToHost, second);
  cudaStreamSynchronize(second);
  const float seen = host[0];
  cudaFree(device);
  cudaFreeHost(host);
  cudaEventDestroy(event);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  ::unsetenv("EMULATION_SCHEDULE");
  return seen;
}

TEST(Emulation, ALateDeviceShowsAMissingWait) {
  EXPECT_EQ(race_of_host("eager").without_wait, 5);  // an eager double alone would not see it
  EXPECT_EQ(race_of_host("lazy").without_wait, -1);
  for (const char* schedule : {"eager", "lazy", "ahead"}) EXPECT_EQ(race_of_host(schedule).with_wait, 5) << schedule;
  EXPECT_EQ(race_of_streams("eager", false), 5);
  EXPECT_TRUE(std::isnan(race_of_streams("lazy", false)));
  for (const char* schedule : {"eager", "lazy", "ahead"}) EXPECT_EQ(race_of_streams(schedule, true), 5) << schedule;
}

}  // namespace
