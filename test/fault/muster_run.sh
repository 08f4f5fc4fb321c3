#!/usr/bin/env bash
# jobs/mpirun/muster-run passes muster's own exit code through, also when a rank is killed.
source "$(dirname "$0")/../end2end/lib.sh"
launcher=$MUSTER_SOURCE/jobs/mpirun/muster-run

cat >train.yaml <<'EOC'
run: {name: launched, seed: 3, steps: 20}
parallel: {lr_scaling: none, allow_oversubscribe: true}
data: {synthetic: {samples: 300, classes: 3, shape: [8]}, batch: 30}
model:
  input: [8]
  layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {sgd: {lr: 0.001}}
log: {every: 10 steps}
EOC

case_ 'a run that ends well: 0'
run_ bash "$launcher" -n 2 -- train train.yaml --set run.directory=fine
expect_exit 0
expect_contains 'done'

case_ 'bad input: its code'
run_ bash "$launcher" -n 2 -- train train.yaml --set run.directory=bad --set data.batch=-1
expect_exit 2

# A script's background commands ignore SIGINT, so `env` restores it; the whole group gets it, as from a terminal.
for signal in INT TERM HUP USR1; do
  case_ "SIG$signal to the launcher: saved, 75"
  setsid env --default-signal=INT bash "$launcher" -n 2 -- train train.yaml --set run.directory="s$signal" --set run.steps=100000000 >log 2>&1 &
  job=$!
  for _ in $(seq 300); do [ -s "s$signal/metrics.jsonl" ] && break; sleep 0.1; done
  kill -"$signal" -- "-$job"
  for _ in $(seq 300); do kill -0 "$job" 2>/dev/null || break; sleep 0.1; done
  if kill -0 "$job" 2>/dev/null; then fail_case 'the launcher did not end'; kill -KILL "$job"; fi
  wait "$job"
  exit_code=$? output=$(cat log)
  expect_exit 75
  expect_contains 'state saved'
  step=$(sed -nE 's/.* after step ([0-9]+), state saved.*/\1/p' log)
  expect_file "s$signal/checkpoints/step-$(printf %08d "$step")/manifest.json"
done

case_ 'a killed rank: 6, named, and no process stays'
bash "$launcher" -n 3 -- train train.yaml --set run.directory=killed --set run.steps=100000000 >log 2>&1 &
job=$!
for _ in $(seq 300); do [ -s killed/metrics.jsonl ] && break; sleep 0.1; done
victim='' others=()
for file in /proc/[0-9]*/environ; do
  { tr '\0' ' ' <"${file%environ}cmdline"; } 2>/dev/null | grep -q "^$MUSTER train train.yaml --set run.directory=killed" || continue
  process=${file%/environ} process=${process#/proc/}
  if { tr '\0' '\n' <"$file"; } 2>/dev/null | grep -qx OMPI_COMM_WORLD_RANK=1; then victim=$process; else others+=("$process"); fi
done
expect_true test -n "$victim"
[ -n "$victim" ] && kill -KILL "$victim"
for _ in $(seq 300); do kill -0 "$job" 2>/dev/null || break; sleep 0.1; done
if kill -0 "$job" 2>/dev/null; then fail_case 'the launcher did not end'; kill -KILL "$job"; fi
wait "$job"
exit_code=$? output=$(cat log)
expect_exit 6
expect_contains 'lost rank 1'
is_there_() { [ -d "/proc/$1" ] && ! grep -q 'State:.Z' "/proc/$1/status"; }
for process in "${others[@]}"; do
  for _ in $(seq 100); do is_there_ "$process" || break; sleep 0.1; done
  if is_there_ "$process"; then fail_case "process $process is still there"; fi
done
finish
