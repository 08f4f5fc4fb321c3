#!/usr/bin/env bash
# `make bench`: timed claims as ratios, measured side by side: rounds of muster and its peer alternate, and each figure is the
# median over the rounds of the 20th percentile of the step times (other processes hardly move that). Also checks that
# the runs learn what they should. BENCH_ROUNDS (default 3). PyTorch is compared where python3-torch is installed.
set -u
cd "$(dirname "$0")/../.." || exit 1
muster=${BUILD:?the build folder}/muster
rounds=${BENCH_ROUNDS:-3}
python=${PYTHON:-/usr/bin/python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

median() { sort -g | awk '{ v[NR] = $1 } END { print (NR == 0 ? "nan" : v[int((NR + 1) / 2)]) }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
# metric RUN KEY: the median over the intervals but the first, which warms up
metric() { sed 1d "$1/metrics.jsonl" | grep -o "\"$2\":[^,}]*" | cut -d: -f2 | median; }

train() { # NAME RANKS CONFIG FLAGS...
  local name=$1 ranks=$2 config=$3 launcher=()
  shift 3
  if [ "$ranks" -gt 1 ]; then launcher=(mpirun --bind-to core -n "$ranks"); fi
  "${launcher[@]}" "$muster" train "$config" --set run.directory="$scratch/$name" --set parallel.lr_scaling=none --force "$@" \
    >"$scratch/$name.log" 2>&1 || { cat "$scratch/$name.log" >&2; exit 1; }
}
loss_of() { grep -o '"loss":[^,]*' "$scratch/$1/metrics.jsonl" | tail -n 1 | cut -d: -f2; }

# PyTorch at its best: AVX-512 kernels where the CPU has them, and a malloc that keeps freed memory on huge pages
peer() { # TASK THREADS
  local kernels=avx2
  if grep -q avx512f /proc/cpuinfo; then kernels=avx512; fi
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456 \
    ATEN_CPU_CAPABILITY=$kernels OMP_NUM_THREADS=$2 "$python" test/bench/peer_torch.py "$1" "$2" 4
}

has_torch=0
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo 'no comparison with PyTorch: apt-get install python3-torch libopenblas0-pthread'
elif readlink -f /usr/lib/*/libblas.so.3 | grep -q '/blas/libblas'; then
  echo 'no comparison with PyTorch: it would run on the reference BLAS; apt-get install libopenblas0-pthread'
else
  has_torch=1
fi

compare() { # TASK THREADS STEPS: step times of muster and PyTorch in turn
  local task=$1 threads=$2 steps=$3
  rm -f "$scratch/own"_times "$scratch/peer"_times
  for _ in $(seq "$rounds"); do
    train own 1 "test/bench/$task.yaml" --set device.tune=true --set device.threads="$threads" --set run.steps="$steps" \
      --set log.every="$((steps / 5)) steps"
    metric "$scratch/own" step_ms_p20 >>"$scratch/own"_times
    if [ "$has_torch" = 1 ]; then peer "$task" "$threads" >>"$scratch/peer"_times; fi
  done
  local own line
  own=$(median <"$scratch/own"_times)
  line="$task fp32, $threads thread(s): $own ms per step, last loss $(loss_of own)"
  if [ "$has_torch" = 1 ]; then
    line+=", PyTorch $(median <"$scratch/peer"_times) ms = $(ratio "$(median <"$scratch/peer"_times)" "$own") times as long"
  fi
  echo "$line"
}

for threads in 1 2; do
  [ "$threads" -le "$(nproc)" ] || continue
  compare mlp "$threads" 1000
  compare cnn "$threads" 150
  compare resnet20 "$threads" 20
done

# Two ranks share every step, so the step of one rank with the whole batch should take twice as long.
for _ in $(seq "$rounds"); do
  train one 1 test/bench/cnn.yaml --set device.threads=1 --set run.steps=150 --set log.every='30 steps'
  metric "$scratch/one" step_ms_p20 >>"$scratch/one_ms"
  train two 2 test/bench/cnn.yaml --set device.threads=1 --set run.steps=150 --set log.every='30 steps'
  metric "$scratch/two" step_ms_p20 >>"$scratch/two_ms"
  train start 1 test/bench/mlp.yaml --set run.steps=1
  grep -o 'first step  after .*' "$scratch/start.log" | awk '{ v = $4; if ($5 == "ms") v /= 1000; print v }' >>"$scratch/first_s"
done
one=$(median <"$scratch/one_ms") two=$(median <"$scratch/two_ms")
echo "cnn, 1 rank: $one ms per step; 2 ranks x 1 thread: $two ms = $(ratio "$one" "$(awk -v b="$two" 'BEGIN { print 2 * b }')")" \
  "of twice one rank; exposed communication $(metric "$scratch/two" exposed_comm)"
echo "mlp, first step after $(median <"$scratch/first_s") s from process start"

for bench in "$BUILD"/test/bench_*; do
  [ -x "$bench" ] || continue
  case $bench in
    *_servers)
      for windows in shared general; do
        echo "$(basename "$bench"), $windows windows:"
        mpirun --bind-to core -n 2 "$bench" 64 "$windows" || exit 1
      done
      ;;
    *)
      echo "$(basename "$bench"):"
      "$bench" || exit 1
      ;;
  esac
done
