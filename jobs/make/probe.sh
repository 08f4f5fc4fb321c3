#!/usr/bin/env bash
# Finds the libraries by compiling and linking a small program with each; writes make variables to the file given.
# A missing required library ends the build with the name of its package.
set -u
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missing=""
rows=""

# try NAME PACKAGE HEADER STATEMENT CANDIDATE...   a candidate is "compile flags|link flags"
try() {
  local name=$1 package=$2 header=$3 statement=$4 candidate flags libs
  shift 4
  printf '%s\nint main() { %s; return 0; }\n' "$header" "$statement" >"$work/probe.cpp"
  for candidate in "$@"; do
    flags=${candidate%%|*} libs=${candidate#*|}
    # shellcheck disable=SC2086
    if $CXX $CXXFLAGS $flags "$work/probe.cpp" $libs -o "$work/probe" 2>"$work/error"; then
      printf '%s_FLAGS := %s\n%s_LIBS := %s\n' "$name" "$flags" "$name" "$libs" >>"$work/found.mk"
      rows+=$(printf '  %-10s found    %s' "$name" "$libs")$'\n'
      return
    fi
  done
  rows+=$(printf '  %-10s MISSING  package %s' "$name" "$package")$'\n'
  missing+=" $package"
}

pc() { # compile|link flags of a pkg-config module, empty where unknown
  pkg-config --exists "$1" 2>/dev/null && printf '%s|%s' "$(pkg-config --cflags "$1" | sed 's/-I/-isystem /g')" "$(pkg-config --libs "$1")" || printf '|-l%s-not-known' "$1"
}

mpi=$(mpicxx --showme:compile 2>/dev/null | sed 's/-I/-isystem /g')"|"$(mpicxx --showme:link 2>/dev/null)
try MPI libopenmpi-dev '#include <mpi.h>' 'int n; MPI_Initialized(&n)' "$mpi" "$(pc ompi-cxx)" "$(pc mpi)"
try HDF5 libhdf5-dev '#include <hdf5.h>' 'H5open()' "$(pc hdf5-serial)" "$(pc hdf5)" "|-lhdf5" "$(pc hdf5-openmpi)"
try DNNL libdnnl-dev '#include <dnnl.hpp>' 'dnnl::engine::get_count(dnnl::engine::kind::cpu)' "|-ldnnl"
try YAML libyaml-cpp-dev '#include <yaml-cpp/yaml.h>' 'YAML::Load("a")' "$(pc yaml-cpp)" "|-lyaml-cpp"
try BOOST libboost-program-options-dev '#include <boost/program_options.hpp>' 'boost::program_options::options_description d("x")' "|-lboost_program_options"
try FMT libfmt-dev '#include <fmt/format.h>' 'fmt::format("{}", 1)' "$(pc fmt)" "|-lfmt"
try SPDLOG libspdlog-dev '#include <spdlog/version.h>' '(void)SPDLOG_VER_MAJOR' "|"
try JSON nlohmann-json3-dev '#include <nlohmann/json.hpp>' 'nlohmann::json j' "|"
try RANDOM123 librandom123-dev '#include <Random123/philox.h>' 'r123::Philox4x32 p; (void)p' "|"
try ZLIB zlib1g-dev '#include <zlib.h>' 'zlibVersion()' "|-lz"
try XXHASH libxxhash-dev '#include <xxhash.h>' 'XXH3_64bits("a", 1)' "|-lxxhash"
try GTEST libgtest-dev '#include <gtest/gtest.h>' 'testing::InitGoogleTest()' "|-lgtest -lpthread"
try BENCHMARK libbenchmark-dev '#include <benchmark/benchmark.h>' 'benchmark::Shutdown()' "|-lbenchmark -lpthread"

printf 'libraries:\n%s' "$rows"
if [ -n "$missing" ]; then
  printf 'missing:%s\ninstall them with: make deps\n' "$missing" >&2
  exit 1
fi
mv "$work/found.mk" "$out"
