#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that building and the demo need, with the argument `tests` also those of the tests;
# does nothing, also offline, where all are there. Uses sudo where not root. MUSTER_SKIP_INSTALL=1 only checks.
set -u

# package: what it is for
needs='
g++|the compiler
make|the build
pkg-config|finding libraries
openmpi-bin|mpirun
libopenmpi-dev|MPI
libhdf5-dev|datasets and checkpoints
libyaml-cpp-dev|configs
libboost-program-options-dev|the command line
libdnnl-dev|oneDNN, the CPU kernels
librandom123-dev|counter-based random numbers
libfmt-dev|messages
libspdlog-dev|the log
nlohmann-json3-dev|metrics and manifests
zlib1g-dev|reading idx.gz
libxxhash-dev|hashes of checkpoint files
libgtest-dev|tests
libbenchmark-dev|benchmarks
dataset-fashion-mnist|the data of the demo
'
needs_of_tests='
python3-h5py|data files of other origin
iproute2|networks between pretended hosts
util-linux|namespaces of pretended hosts
procps|lists of processes
slurm-wlm|a batch system over pretended nodes
munge|its authentication
'
case ${1:-} in
  '') ;;
  tests) needs+=${needs_of_tests#$'\n'} ;;
  *) echo "usage: $0 [tests]" >&2; exit 2 ;;
esac

missing=()
while IFS='|' read -r package purpose; do
  [ -n "$package" ] || continue
  if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
    printf 'missing: %-30s (%s)\n' "$package" "$purpose"
    missing+=("$package")
  fi
done <<<"$needs"
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "${MUSTER_SKIP_INSTALL:-0}" = 1 ]; then
  echo "not installed, since MUSTER_SKIP_INSTALL=1" >&2
  exit 1
fi
command -v apt-get >/dev/null || { echo "no apt-get here: install the above by your distribution's means" >&2; exit 1; }
run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
echo "installing them with apt-get"
export DEBIAN_FRONTEND=noninteractive
run apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
  { run apt-get update -q >/dev/null && run apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null; } ||
  { echo "apt-get install failed for: ${missing[*]}" >&2; exit 1; }
