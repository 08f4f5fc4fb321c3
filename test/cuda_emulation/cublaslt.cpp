// The double of cuBLASLt: float32 products with the epilogues that muster uses. Sums in double, rounded once.
#include "cuda_emulation/doubles.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

using emulation::shadow;
using emulation::stop;

namespace {

constexpr std::uint64_t algorithm_mark = 0x6d75737465720001;
constexpr std::size_t wanted_workspace = 1 << 16;

struct Handle : emulation::Counted {};
struct Preference : emulation::Counted {
  std::uint64_t workspace = 0;
};
struct Layout : emulation::Counted {
  std::int64_t rows = 0, columns = 0, leading = 0;
  std::size_t bytes() const { return static_cast<std::size_t>((columns - 1) * leading + rows) * sizeof(float); }
};
struct Desc : emulation::Counted {
  std::map<int, std::vector<char>> attributes;
  template <class Value>
  Value get(cublasLtMatmulDescAttributes_t name, Value otherwise) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return otherwise;
    if (found->second.size() != sizeof(Value)) stop(fmt::format("cuBLASLt attribute {} has the wrong size", int{name}));
    std::memcpy(&otherwise, found->second.data(), sizeof(Value));
    return otherwise;
  }
  cublasLtEpilogue_t epilogue() const { return get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT); }
  bool is_a_transposed() const { return get(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T; }
  bool is_b_transposed() const { return get(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T; }
};

bool has_bias(cublasLtEpilogue_t e) { return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS; }

/// Column-major d = op(a) op(b) with the epilogue.
struct Product {
  std::int64_t m, n, k, lda, ldb, ldd;
  bool is_a_transposed, is_b_transposed;
  cublasLtEpilogue_t epilogue;
  const float *a, *b;
  float *d, *vector;

  double a_at(std::int64_t i, std::int64_t p) const {
    return double{is_a_transposed ? a[i * lda + p] : a[p * lda + i]};
  }
  double b_at(std::int64_t p, std::int64_t j) const {
    return double{is_b_transposed ? b[p * ldb + j] : b[j * ldb + p]};
  }
  void run() const {
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) {
        double sum = has_bias(epilogue) ? double{vector[i]} : 0.0;
        for (std::int64_t p = 0; p < k; ++p) sum += a_at(i, p) * b_at(p, j);
        if (epilogue == CUBLASLT_EPILOGUE_RELU_BIAS && sum <= 0) sum = 0;
        d[j * ldd + i] = static_cast<float>(sum);
      }
    for (std::int64_t j = 0; epilogue == CUBLASLT_EPILOGUE_BGRADB && j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p) sum += b_at(p, j);
      vector[j] = static_cast<float>(sum);
    }
  }
};

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the emulation"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new Handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<Handle*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete reinterpret_cast<Desc*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  const char* from = static_cast<const char*>(value);
  reinterpret_cast<Desc*>(desc)->attributes[name].assign(from, from + bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (rows == 0 || columns == 0 || leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  auto* made = new Layout;
  made->rows = static_cast<std::int64_t>(rows);
  made->columns = static_cast<std::int64_t>(columns);
  made->leading = leading;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    size_t bytes) {
  if (name != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || bytes != 8) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&reinterpret_cast<Preference*>(preference)->workspace, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// EMULATION_NO_EPILOGUES=1: no algorithm has an epilogue, as for shapes that the real library does not fuse.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  *count = 0;
  const bool refuses = std::getenv("EMULATION_NO_EPILOGUES") != nullptr;
  if (refuses && reinterpret_cast<Desc*>(desc)->epilogue() != CUBLASLT_EPILOGUE_DEFAULT)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(&results[0], 0, sizeof(results[0]));
  results[0].algo.data[0] = algorithm_mark;
  results[0].workspaceSize =
      std::min<std::size_t>(wanted_workspace, reinterpret_cast<Preference*>(preference)->workspace);
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Desc& m = *reinterpret_cast<Desc*>(desc);
  const Layout &la = *reinterpret_cast<Layout*>(a_layout), &lb = *reinterpret_cast<Layout*>(b_layout),
               &ld = *reinterpret_cast<Layout*>(d_layout);
  if (algorithm == nullptr || algorithm->data[0] != algorithm_mark) return CUBLAS_STATUS_INVALID_VALUE;
  if (*static_cast<const float*>(alpha) != 1.0f || *static_cast<const float*>(beta) != 0.0f)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace_bytes < wanted_workspace) stop("cublasLtMatmul: the workspace is smaller than the algorithm wants");
  const bool at = m.is_a_transposed(), bt = m.is_b_transposed();
  Product p{at ? la.columns : la.rows,
            bt ? lb.rows : lb.columns,
            at ? la.rows : la.columns,
            la.leading,
            lb.leading,
            ld.leading,
            at,
            bt,
            m.epilogue(),
            nullptr,
            nullptr,
            nullptr,
            nullptr};
  if ((bt ? lb.columns : lb.rows) != p.k || ld.rows != p.m || ld.columns != p.n) return CUBLAS_STATUS_INVALID_VALUE;
  p.a = static_cast<const float*>(shadow(a, la.bytes(), "cublasLtMatmul, first matrix"));
  p.b = static_cast<const float*>(shadow(b, lb.bytes(), "cublasLtMatmul, second matrix"));
  p.d = static_cast<float*>(shadow(d, ld.bytes(), "cublasLtMatmul, result"));
  void* scratch = shadow(workspace, workspace_bytes, "cublasLtMatmul, workspace");
  auto* vector = m.get<float*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
  if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    const std::int64_t length = has_bias(p.epilogue) ? p.m : p.n;
    if (!has_bias(p.epilogue) && p.epilogue != CUBLASLT_EPILOGUE_BGRADB) return CUBLAS_STATUS_NOT_SUPPORTED;
    p.vector = shadow(vector, static_cast<std::size_t>(length) * sizeof(float), "cublasLtMatmul, vector");
  }
  emulation::enqueue(stream, "cublasLtMatmul", [=] {
    std::memset(scratch, 0xEE, workspace_bytes);
    p.run();
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
