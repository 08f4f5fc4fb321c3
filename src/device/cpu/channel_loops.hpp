// The loops of batch norm over an image batch in any of our layouts. A "lane" is the innermost run in memory: the
// channels of a block (b >= 8), or the pixels of one channel (b = 1). Sums are taken in float over short runs, then in
// double; each thread owns a contiguous part of the rows, and the threads' sums are added in order, so the result
// depends on the shape and the number of threads only.
#pragma once

#include "device/cpu/cpu_op.hpp"
#include "device/cpu/image.hpp"

namespace muster::device::cpu {

/// Rows [begin, end) of thread t.
inline Range rows_of_thread(Range rows, int threads, int t) {
  return {rows.begin + rows.size() * t / threads, rows.begin + rows.size() * (t + 1) / threads};
}

/// Pixels summed in float before the sum goes to double.
inline constexpr std::int64_t run_length = 64;

/// sums[c] and products[c] (padded to whole blocks) of `value(index)` and `value(index) * factor(index, c)` over
/// `rows`. terms(i, c_in_block...) is called as terms(index, channel, a, b): it must set a and b to the two terms.
template <class Terms>
void sum_channels(const ImageLayout& image, Range rows, double* sums, double* products, Terms terms) {
  for (std::int64_t n = rows.begin; n < rows.end; ++n) {
    for (std::int64_t k = 0; k < image.blocks; ++k) {
      const std::int64_t base = (n * image.blocks + k) * image.pixels * image.block;
      if (image.block == 1) {
        for (std::int64_t first = 0; first < image.pixels; first += run_length) {
          const std::int64_t last = std::min(first + run_length, image.pixels);
          float a = 0, b = 0;
#pragma omp simd reduction(+ : a, b)
          for (std::int64_t s = first; s < last; ++s) {
            float u, v;
            terms(base + s, k, u, v);
            a += u;
            b += v;
          }
          sums[k] += static_cast<double>(a);
          products[k] += static_cast<double>(b);
        }
        continue;
      }
      for (std::int64_t lane = 0; lane < image.block; lane += 16) {
        const std::int64_t width = std::min<std::int64_t>(16, image.block - lane);
        for (std::int64_t first = 0; first < image.pixels; first += run_length) {
          const std::int64_t last = std::min(first + run_length, image.pixels);
          float a[16] = {}, b[16] = {};
          for (std::int64_t s = first; s < last; ++s) {
            const std::int64_t at = base + s * image.block + lane, c = k * image.block + lane;
            if (width == 16) {
#pragma omp simd
              for (std::int64_t j = 0; j < 16; ++j) {
                float u, v;
                terms(at + j, c + j, u, v);
                a[j] += u;
                b[j] += v;
              }
            } else {
              for (std::int64_t j = 0; j < width; ++j) {
                float u, v;
                terms(at + j, c + j, u, v);
                a[j] += u;
                b[j] += v;
              }
            }
          }
          for (std::int64_t j = 0; j < width; ++j) {
            sums[k * image.block + lane + j] += static_cast<double>(a[j]);
            products[k * image.block + lane + j] += static_cast<double>(b[j]);
          }
        }
      }
    }
  }
}

/// Calls body(index, channel) for every element of `rows`, the innermost run vectorised.
template <class Body>
void map_channels(const ImageLayout& image, Range rows, Body body) {
  for (std::int64_t n = rows.begin; n < rows.end; ++n) {
    for (std::int64_t k = 0; k < image.blocks; ++k) {
      const std::int64_t base = (n * image.blocks + k) * image.pixels * image.block;
      if (image.block == 1) {
#pragma omp simd
        for (std::int64_t s = 0; s < image.pixels; ++s) body(base + s, k);
      } else if (image.block == 16) {
        for (std::int64_t s = 0; s < image.pixels; ++s) {
#pragma omp simd
          for (std::int64_t j = 0; j < 16; ++j) body(base + s * 16 + j, k * 16 + j);
        }
      } else {
        for (std::int64_t s = 0; s < image.pixels; ++s) {
#pragma omp simd
          for (std::int64_t j = 0; j < image.block; ++j) body(base + s * image.block + j, k * image.block + j);
        }
      }
    }
  }
}

}  // namespace muster::device::cpu
