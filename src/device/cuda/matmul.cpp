// cuBLASLt's matrices are column-major: a row-major [r, c] matrix is its column-major [c, r] transpose in the same
// memory. So d^T = op(b)^T op(a)^T is what is asked for, with b first; the vector of a bias runs along the rows of d^T,
// which are the columns of d.
#include "device/cuda/matmul.hpp"

#include "device/cuda/check.hpp"

namespace muster::device::cuda {
namespace {

struct DescTraits {
  using type = cublasLtMatmulDesc_t;
  static constexpr type empty() { return nullptr; }
  static void release(type desc) noexcept { cublasLtMatmulDescDestroy(desc); }
};
struct LayoutTraits {
  using type = cublasLtMatrixLayout_t;
  static constexpr type empty() { return nullptr; }
  static void release(type layout) noexcept { cublasLtMatrixLayoutDestroy(layout); }
};
struct PreferenceTraits {
  using type = cublasLtMatmulPreference_t;
  static constexpr type empty() { return nullptr; }
  static void release(type preference) noexcept { cublasLtMatmulPreferenceDestroy(preference); }
};

/// Row-major [rows, columns].
UniqueHandle<LayoutTraits> layout_of(std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, static_cast<std::uint64_t>(columns),
                                          static_cast<std::uint64_t>(rows), columns));
  return UniqueHandle<LayoutTraits>(layout);
}

cublasLtEpilogue_t epilogue_of(MatmulSpec::Epilogue epilogue) {
  switch (epilogue) {
    case MatmulSpec::Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatmulSpec::Epilogue::bias_relu:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case MatmulSpec::Epilogue::a_sums:
      return CUBLASLT_EPILOGUE_BGRADB;  // our a is the library's b
    case MatmulSpec::Epilogue::none:
      break;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

struct Matmul::Plan {
  UniqueHandle<DescTraits> desc;
  UniqueHandle<LayoutTraits> a, b, d;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
  const void* vector = nullptr;  ///< the one set in desc

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(desc.get(), attribute, &value, sizeof(value)));
  }
};

Matmul::Matmul(Context& context, std::unique_ptr<Plan> plan) : context_(context), plan_(std::move(plan)) {}
Matmul::~Matmul() = default;

std::unique_ptr<Matmul> Matmul::make(Context& context, const MatmulSpec& spec) {
  auto plan = std::make_unique<Plan>();
  cublasLtMatmulDesc_t desc = nullptr;
  CUBLAS_CHECK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  plan->desc.reset(desc);
  plan->set(CUBLASLT_MATMUL_DESC_TRANSA, spec.is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan->set(CUBLASLT_MATMUL_DESC_TRANSB, spec.is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan->set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(spec.epilogue));
  plan->a = spec.is_a_transposed ? layout_of(spec.inner, spec.rows) : layout_of(spec.rows, spec.inner);
  plan->b = spec.is_b_transposed ? layout_of(spec.columns, spec.inner) : layout_of(spec.inner, spec.columns);
  plan->d = layout_of(spec.rows, spec.columns);

  cublasLtMatmulPreference_t made = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  const UniqueHandle<PreferenceTraits> preference(made);
  const std::uint64_t workspace = Context::workspace_bytes;
  CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                    &workspace, sizeof(workspace)));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(context.cublas(), desc, plan->b.get(), plan->a.get(), plan->d.get(), plan->d.get(),
                                     preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
    if (spec.epilogue != MatmulSpec::Epilogue::none) return nullptr;
    fail(ExitCode::device, "cuBLASLt has no algorithm for a float32 product [{}, {}] x [{}, {}]", spec.rows, spec.inner,
         spec.inner, spec.columns);
  }
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  plan->algorithm = found.algo;
  plan->workspace_bytes = found.workspaceSize;
  return std::unique_ptr<Matmul>(new Matmul(context, std::move(plan)));
}

void Matmul::run(const float* a, const float* b, float* d, float* vector) {
  if (vector != plan_->vector) {
    plan_->set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    plan_->vector = vector;
  }
  const float one = 1.0f, zero = 0.0f;
  CUBLAS_CHECK(cublasLtMatmul(context_.cublas(), plan_->desc.get(), &one, b, plan_->b.get(), a, plan_->a.get(), &zero,
                              d, plan_->d.get(), d, plan_->d.get(), &plan_->algorithm, context_.workspace(),
                              plan_->workspace_bytes, context_.stream()));
}

}  // namespace muster::device::cuda
