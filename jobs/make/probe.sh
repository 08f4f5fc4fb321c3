#!/usr/bin/env bash
# Finds the libraries by compiling, linking and running a small program with each, and prints a table with versions.
# Writes make variables NAME_FLAGS and NAME_LIBS to the file given; a missing required library ends the build with the
# name of its package. CXX and CXXFLAGS come from the environment.
set -u
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
order=()

# try NAME PACKAGE INCLUDE EXPRESSION CANDIDATE...   a candidate is "compile flags|link flags"; the expression is the text
# of the version. Runs in the background: the programs of all libraries compile at once.
try() {
  order+=("$1")
  probe "$@" &
}

probe() {
  local name=$1 package=$2 include=$3 expression=$4 candidate flags libs base=$work/$1 version
  shift 4
  printf '#include <cstdio>\n#include <string>\n%s\nint main() { std::string text = %s; std::puts(text.c_str()); }\n' \
    "$include" "$expression" >"$base.cpp"
  for candidate in "$@"; do
    flags=${candidate%%|*} libs=${candidate#*|}
    # shellcheck disable=SC2086
    if $CXX $CXXFLAGS $flags "$base.cpp" $libs -o "$base.out" 2>"$base.error" && version=$("$base.out" 2>>"$base.error"); then
      printf '%s_FLAGS := %s\n%s_LIBS := %s\n' "$name" "$flags" "$name" "$libs" >"$base.mk"
      printf '  %-10s %-16s %s\n' "$name" "${version:-found}" "$libs" >"$base.row"
      return
    fi
  done
  printf '  %-10s %-16s package %s; the last try said: %s\n' "$name" MISSING "$package" \
    "$(grep -m 1 -iE 'error|cannot|undefined' "$base.error")" >"$base.row"
  printf '%s\n' "$package" >"$base.missing"
}

pc() { # compile|link flags of a pkg-config module; system headers raise no warnings of ours
  pkg-config --exists "$1" 2>/dev/null || { printf '|-l%s-is-not-known-to-pkg-config' "$1"; return; }
  printf '%s|%s' "$(pkg-config --cflags "$1" | sed 's/-I/-isystem /g')" "$(pkg-config --libs "$1")"
}
pc_version() { printf '"%s"' "$(pkg-config --modversion "$1" 2>/dev/null)"; }

mpi="$(mpicxx --showme:compile 2>/dev/null | sed 's/-I/-isystem /g')|$(mpicxx --showme:link 2>/dev/null)"
mpich="$(mpicxx -compile_info 2>/dev/null | cut -d' ' -f2- | sed 's/-I/-isystem /g')|$(mpicxx -link_info 2>/dev/null | cut -d' ' -f2-)"
h5_root=$(dirname "$(dirname "$(command -v h5cc || echo /usr/bin/h5cc)")")
try MPI libopenmpi-dev '#include <mpi.h>' \
  '[] { static char v[MPI_MAX_LIBRARY_VERSION_STRING]; int n; MPI_Get_library_version(v, &n); std::string t(v); return t.substr(0, t.find_first_of(",\n")); }()' \
  "$mpi" "$(pc ompi-cxx)" "$mpich" "$(pc mpich)" "$(pc mpi)"
try HDF5 libhdf5-dev '#include <hdf5.h>' \
  '[] { unsigned a, b, c; H5get_libversion(&a, &b, &c); return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c); }()' \
  "$(pc hdf5-serial)" "$(pc hdf5)" "|-lhdf5" "-isystem $h5_root/include|-L$h5_root/lib -Wl,-rpath,$h5_root/lib -lhdf5" "$(pc hdf5-openmpi)"
try DNNL libdnnl-dev '#include <dnnl.hpp>' \
  'std::to_string(dnnl::version()->major) + "." + std::to_string(dnnl::version()->minor) + "." + std::to_string(dnnl::version()->patch)' \
  "|-ldnnl" "$(pc dnnl)"
try YAML libyaml-cpp-dev '#include <yaml-cpp/yaml.h>' "YAML::Load(\"a\").as<std::string>() == \"a\" ? $(pc_version yaml-cpp) : \"\"" \
  "$(pc yaml-cpp)" "|-lyaml-cpp"
try BOOST libboost-program-options-dev $'#include <boost/program_options.hpp>\n#include <boost/version.hpp>' \
  'boost::program_options::options_description("x").options().empty() ? BOOST_LIB_VERSION : ""' "|-lboost_program_options"
try FMT libfmt-dev '#include <fmt/format.h>' 'fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)' \
  "$(pc fmt)" "|-lfmt"
try SPDLOG libspdlog-dev '#include <spdlog/version.h>' \
  'std::to_string(SPDLOG_VER_MAJOR) + "." + std::to_string(SPDLOG_VER_MINOR) + "." + std::to_string(SPDLOG_VER_PATCH)' "|"
try JSON nlohmann-json3-dev '#include <nlohmann/json.hpp>' \
  'std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." + std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." + std::to_string(NLOHMANN_JSON_VERSION_PATCH)' "|"
try RANDOM123 librandom123-dev '#include <Random123/philox.h>' \
  'r123::Philox4x32()({{0, 0, 0, 0}}, {{0, 0}})[0] == 0x6627e8d5u ? "found" : "wrong"' "|"
try ZLIB zlib1g-dev '#include <zlib.h>' 'zlibVersion()' "|-lz"
try XXHASH libxxhash-dev '#include <xxhash.h>' 'XXH3_64bits("a", 1) != 0 ? std::to_string(XXH_versionNumber()) : ""' "|-lxxhash"
try GTEST libgtest-dev '#include <gtest/gtest.h>' "testing::UnitTest::GetInstance() ? $(pc_version gtest) : \"\"" "|-lgtest -lpthread" "$(pc gtest)"
try BENCHMARK libbenchmark-dev '#include <benchmark/benchmark.h>' "benchmark::ReportUnrecognizedArguments(0, nullptr) ? \"\" : $(pc_version benchmark)" \
  "|-lbenchmark -lpthread" "$(pc benchmark)"
wait

# The GPU plugin is optional. Its libraries are only linked here, not run: that needs a driver. CUDA=1 makes them required.
cuda_row='' cuda_found=0
probe_cuda() {
  local home cudnn flags libs base=$work/CUDA why
  home=${CUDA_HOME:-$(dirname "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")}
  cudnn=${CUDNN_HOME:-$home}
  flags="-isystem $home/include" libs="-L$home/lib64 -L$home/lib -lcudart -lcublasLt -lcudnn"
  [ "$cudnn" = "$home" ] || flags+=" -isystem $cudnn/include" libs="-L$cudnn/lib64 -L$cudnn/lib $libs"
  if [ "${CUDA:-}" = 0 ]; then
    why='left out by CUDA=0'
  elif [ ! -x "$home/bin/nvcc" ]; then
    why="no nvcc in $home/bin (CUDA_HOME)"
  else
    cat >"$base.cpp" <<'EOC'
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>
#if CUDART_VERSION < 12000
#error CUDA 12 or newer is needed
#endif
#if CUDNN_MAJOR < 9
#error cuDNN 9 or newer is needed (CUDNN_HOME)
#endif
int main() {
  int n = 0;
  cublasLtHandle_t h;
  return cudaGetDeviceCount(&n) + cublasLtCreate(&h) + (cudnnGetVersion() == 0);
}
EOC
    # shellcheck disable=SC2086
    if $CXX $CXXFLAGS $flags "$base.cpp" $libs -o "$base.out" 2>"$base.error"; then
      cuda_found=1
      cuda_row="$("$home/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')|$home, linked only"
    else
      why="the last try said: $(grep -m 1 -iE 'error|cannot|undefined' "$base.error")"
    fi
  fi
  [ "$cuda_found" = 1 ] || cuda_row="absent|optional, for GPUs: $why"
  printf 'CUDA_FOUND := %s\nCUDA_ROOT := %s\nCUDA_FLAGS := %s\nCUDA_LIBS := %s\n' \
    "$cuda_found" "$home" "$flags" "$libs -Wl,-rpath,$cudnn/lib64 -Wl,-rpath,$cudnn/lib -Wl,-rpath,$home/lib64 -Wl,-rpath,$home/lib" >"$work/CUDA.mk"
}
probe_cuda
if [ "${CUDA:-}" = 1 ] && [ "$cuda_found" = 0 ]; then
  printf 'CUDA=1 asks for the GPU plugin, but CUDA is %s\n' "${cuda_row/|/: }" >&2
  exit 1
fi

echo 'libraries:'
for name in "${order[@]}"; do cat "$work/$name.row"; done
printf '  %-10s %-16s %s\n' CUDA "${cuda_row%%|*}" "${cuda_row#*|}"
echo 'tools (make lint):'
for tool in clang-format shellcheck; do
  printf '  %-16s %s\n' "$tool" "$("$tool" --version 2>/dev/null | grep -oEm 1 '[0-9]+\.[0-9]+[0-9.]*' || echo 'absent')"
done
missing=$(cat "$work"/*.missing 2>/dev/null | tr '\n' ' ')
if [ -n "$missing" ]; then
  printf 'missing: %s\ninstall them with: make deps\n' "$missing" >&2
  exit 1
fi
for name in "${order[@]}" CUDA; do cat "$work/$name.mk"; done >"$out.new" && mv "$out.new" "$out"
