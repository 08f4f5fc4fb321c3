#!/usr/bin/env bash
# A rank that dies or stops answering in mid-training: the others notice, name it and end the job.
source "$(dirname "$0")/../end2end/lib.sh"

cat >train.yaml <<'EOF'
run: {name: endless, seed: 3, steps: 100000000, reproducible: bitwise, deadline_s: 3}
parallel: {lr_scaling: none, grains: 6, allow_oversubscribe: true}
data: {synthetic: {samples: 3000, classes: 3, shape: [8]}, batch: 30}
model:
  input: [8]
  layers:
    - dense: {units: 16, activation: relu}
    - dense: {units: 3}
  loss: softmax_cross_entropy
optimizer: {sgd: {lr: 0.001}}
log: {every: 10 steps}
EOF

launcher=0

# start_ DIRECTORY EXTRA...: three ranks in the background, returns when they are in mid-training.
start_() {
  local directory=$1 i
  shift
  timeout -k 5 "$LIMIT_S" mpirun -n 3 "$MUSTER" train train.yaml --set run.directory="$directory" "$@" </dev/null >"$directory.log" 2>&1 &
  launcher=$!
  for ((i = 0; i < 300; ++i)); do
    [ -s "$directory/metrics.jsonl" ] && return 0
    sleep 0.1
  done
  fail_case 'the training did not start'
}

# process_of DIRECTORY RANK: its process number.
process_of() {
  local folder
  for folder in /proc/[0-9]*; do
    {
      tr '\0' '\n' <"$folder/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2" &&
        tr '\0' ' ' <"$folder/cmdline" | grep -q "run.directory=$1 " && echo "${folder#/proc/}" && return
    } 2>/dev/null   # processes come and go, and some are not ours
  done
}

# await_ SECONDS DIRECTORY: the end of the job, within the limit.
await_() {
  local i
  for ((i = 0; i < $1 * 10; ++i)); do
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 "$launcher" 2>/dev/null; then
    fail_case "no end within $1 s"
    kill -TERM "$launcher"
  fi
  wait "$launcher"
  exit_code=$?
  output=$(cat "$2.log")
}

# gone_ PROCESS: it ends within some seconds (the launcher does not wait for the kernel to finish it).
gone_() {
  local i
  for ((i = 0; i < 100; ++i)); do
    [ -d "/proc/$1" ] || return 0
    sleep 0.1
  done
  return 1
}

case_ 'a killed rank is noticed at once and named'
start_ killed --set run.deadline_s=300
kill -KILL "$(process_of killed 2)"
await_ 15 killed
expect_true test "$exit_code" -eq 6 -o "$exit_code" -eq 137 # plain mpirun gives its own code; muster_run.sh shows the 6
expect_match 'rank [01] of 3 on [^ ]+, step [0-9]+: lost rank 2 on [^ ]+ \(process [0-9]+ has ended\) while waiting in'

case_ 'a rank that stops answering is named when the deadline is over, and the job ends with exit code 6'
start_ stopped
stopped=$(process_of stopped 1)
kill -STOP "$stopped"
await_ 25 stopped
expect_exit 6
expect_match 'was not done after 3 s; absent: rank 1 on'
expect_true gone_ "$stopped"

case_ 'the same over messages'
export MUSTER_REDUCE=flat
start_ messages --set parallel.strategy=multi_worker_mirrored
kill -STOP "$(process_of messages 0)"
await_ 25 messages
expect_exit 6
expect_match 'was not done after 3 s; absent: rank 0 on'

finish
