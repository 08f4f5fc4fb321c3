#!/usr/bin/env bash
# The GPU backend on a card with the real libraries: does one work here; every op, loss and update against `ref`; the same
# again under compute-sanitizer's memcheck and racecheck, where it is installed; a network that learns the same as on
# the CPU. Each part is one line `ok` or `not ok`; exit 1 when any is not. $BUILD is the build folder.
#   GPU_PLUGIN=file: another plugin (the emulated one shows that this script works)
set -u
BUILD=$(cd "${BUILD:?the build folder}" && pwd) || exit 1
plugin=$(realpath "${GPU_PLUGIN:-$BUILD/libmuster_cuda.so}")
sanitizer=${SANITIZER:-$(command -v compute-sanitizer || echo "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer")}
export MUSTER_CUDA_PLUGIN=$plugin CUDA_TEST_PLUGIN=$plugin
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
failed=0

# part NAME LIMIT_S COMMAND...
part() {
  local name=$1 limit=$2 code start=$SECONDS
  shift 2
  (cd "$work" && timeout -k 5 "$limit" "$@" </dev/null >"$work/log" 2>&1)
  code=$?
  if [ "$code" -eq 0 ]; then echo "ok $name ($((SECONDS - start)) s)"; return 0; fi
  echo "not ok $name: exit code $code after $((SECONDS - start)) s"
  tail -n 30 "$work/log" | sed 's/^/    | /'
  failed=1
  return 1
}
# The loss of the last evaluation of a run in $work.
loss_() { sed -nE 's/.*"split":"test".*"loss":([0-9.e-]+).*|.*"loss":([0-9.e-]+).*"split":"test".*/\1\2/p' "$work/$1/metrics.jsonl" | tail -n 1; }
train() { part "train $1" 120 "$BUILD/muster" train small.yaml --set device.kind="$1" --set run.directory="$1"; }
same_loss() {
  local verdict='ok'
  awk -v a="$(loss_ ref)" -v b="$(loss_ cuda)" 'BEGIN { exit !(a > 0 && b > 0 && (a - b) ^ 2 < 1e-6 * a ^ 2) }' ||
    verdict='not ok' failed=1
  echo "$verdict learns the same as on the CPU: loss $(loss_ ref) with plain loops, $(loss_ cuda) on the GPU"
}

cat >"$work/small.yaml" <<'EOC'
run: {name: small, seed: 5, steps: 60}
parallel: {lr_scaling: none}
data:
  synthetic: {samples: 300, test_samples: 90, classes: 4, shape: [1, 6, 6]}
  batch: 16
model:
  input: [1, 6, 6]
  layers:
    - conv2d: {filters: 4, kernel: 3, padding: same, activation: relu}
    - flatten
    - dense: {units: 4}
  loss: softmax_cross_entropy
optimizer: {adamw: {lr: 3e-3}}
EOC

if train cuda; then
  grep -m 1 -E '^device' "$work/log"
  only='--gtest_filter=-EmulatedCard.*'
  part 'ops, losses and updates as ref' 200 "$BUILD/test/cuda_backend_tests" "$only"
  if [ -x "$sanitizer" ]; then
    for tool in memcheck racecheck; do
      part "$tool" 200 "$sanitizer" --tool "$tool" --error-exitcode 1 "$BUILD/test/cuda_backend_tests" "$only"
    done
  else
    echo "left out: memcheck and racecheck (no compute-sanitizer at $sanitizer)"
  fi
  train ref
  same_loss
fi
[ "$failed" -eq 0 ]
