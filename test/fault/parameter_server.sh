#!/usr/bin/env bash
# The parameter-server strategy under faults: workers killed and paused, a server killed, a stop and a resume.
source "$(dirname "$0")/../end2end/lib.sh"
LIMIT_S=180
launcher=$MUSTER_SOURCE/jobs/mpirun/muster-run

cat >ps.yaml <<'EOC'
run: {name: ps, seed: 3, steps: 600}
parallel: {strategy: parameter_server, servers: 1, staleness: 4, heartbeat_deadline_s: 3, allow_oversubscribe: true}
device: {threads: 1}
data: {synthetic: {samples: 3000, test_samples: 300, classes: 3, shape: [64]}, batch: 30}
model:
  input: [64]
  layers: [{dense: {units: 128}}, batch_norm, relu, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.01}}
checkpoint: {every: 200 steps, keep: 3}
eval: {every: 300 steps}
log: {every: 20 steps}
EOC

start_() { # RUN RANKS FLAGS...: in the background; waits until it trains
  local run=$1 ranks=$2
  shift 2
  bash "$launcher" -n "$ranks" -- train ps.yaml --set run.directory="$run" "$@" >log 2>&1 &
  job=$!
  for _ in $(seq 300); do [ -s "$run/metrics.jsonl" ] && return; sleep 0.05; done
  fail_case "the training in $run did not start"
}
await_() {
  local end=$((SECONDS + LIMIT_S))
  while kill -0 "$job" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do sleep 0.1; done
  if kill -0 "$job" 2>/dev/null; then fail_case "no end within $LIMIT_S s"; kill -KILL "$job"; fi
  wait "$job"
  exit_code=$? output=$(cat log)
}

# until_ PATTERN: waits for a line of the log; a slow machine may take its time
until_() {
  for _ in $(seq 600); do grep -qE "$1" log && return; sleep 0.1; done
  fail_case "the log never said '$1'"
}

for servers in 1 2; do
  for transport in shared general; do
    case_ "$servers server(s), $transport windows: trains to its end, evaluates and saves"
    ranks_ 4 "$MUSTER" train ps.yaml --set run.directory="plain$servers$transport" --set parallel.servers="$servers" --set parallel.transport="$transport"
    expect_exit 0
    expect_match 'test +step 600 '
    expect_file "plain$servers$transport/checkpoints/step-00000600/manifest.json"
    loss=$(grep -o '"loss":[^,]*' "plain$servers$transport/metrics.jsonl" | tail -n 1 | cut -d: -f2)
    expect_equal "$(awk -v l="$loss" 'BEGIN { print (l < 0.2) }')" 1 "loss $loss below 0.2"
  done
done

case_ 'eval reads what the servers have saved'
run_ "$MUSTER" eval plain1shared
expect_exit 0
expect_contains 'step 600'

case_ 'start weights of a file reach the servers'
ranks_ 3 "$MUSTER" train ps.yaml --set run.directory=warm --set run.steps=20 --set eval.every=never \
  --set model.weights="$PWD/plain1shared/checkpoints/step-00000600/weights.safetensors"
expect_exit 0
loss=$(grep -o '"loss":[^,]*' warm/metrics.jsonl | head -n 1 | cut -d: -f2)
expect_equal "$(awk -v l="$loss" 'BEGIN { print (l < 0.2) }')" 1 "loss $loss of the first 20 steps below 0.2"

case_ 'a killed worker: the others do its batches, every sample is used once'
start_ killed 4 --set run.steps=15000 --set checkpoint.every=never --set eval.every=never
victim=$(rank_of killed 2)
expect_true test -n "$victim"
[ -n "$victim" ] && kill -KILL "$victim"
await_
expect_exit 0
expect_contains 'worker 1 (rank 2'
expect_contains 'is gone'
expect_contains 'done        15000 steps'

case_ 'a paused worker is let in again and works'
start_ paused 4 --set run.steps=100000000 --set checkpoint.every=never --set eval.every=never --set log.every='1000 steps'
victim=$(rank_of paused 3)
expect_true test -n "$victim"
[ -n "$victim" ] && kill -STOP "$victim" && until_ 'worker 2 \(rank 3 .* is gone' && kill -CONT "$victim"
until_ 'worker 2 \(rank 3 .* is back'
until_ 'shares [1-9][0-9]*/[1-9][0-9]*/[1-9][0-9]* %$'
kill -USR1 "$(rank_of paused 1)"
await_
expect_exit 75

case_ 'a killed server: code 6, named; the run resumes with another number of workers and servers'
start_ server 4 --set parallel.servers=2 --set run.steps=100000
for _ in $(seq 200); do compgen -G 'server/checkpoints/step-*' >/dev/null && break; sleep 0.05; done
victim=$(rank_of server 1)
expect_true test -n "$victim"
[ -n "$victim" ] && kill -KILL "$victim"
await_
expect_exit 6
expect_contains 'lost parameter server 1'
step=$(find server/checkpoints -name 'step-*' | sort | tail -n 1 | sed 's/.*step-0*//')
ranks_ 3 "$MUSTER" train ps.yaml --set run.directory=server --resume --set run.steps=$((step + 200))
expect_exit 0
expect_contains "resumed at step $step"
expect_contains "done        $((step + 200)) steps"

case_ 'a signal saves and gives 75; the resumed run ends at its step'
start_ stopped 3 --set run.steps=1000000 --set checkpoint.every=never --set eval.every=never
victim=$(rank_of stopped 2)
kill -USR1 "$victim"
await_
expect_exit 75
step=$(find stopped/checkpoints -name 'step-*' | sed 's/.*step-0*//')
ranks_ 2 "$MUSTER" train ps.yaml --set run.directory=stopped --resume --set run.steps=$((step + 100))
expect_exit 0
expect_contains "done        $((step + 100)) steps"

case_ 'the last worker gone: code 6, what the servers hold is saved, and the run goes on from there'
start_ last 2 --set run.steps=1000000 --set checkpoint.every=never --set eval.every=never
victim=$(rank_of last 1)
[ -n "$victim" ] && kill -KILL "$victim"
await_
expect_exit 6
expect_contains 'lost the last worker'
step=$(sed -nE 's/.*the state of step ([0-9]+) is saved.*/\1/p' log)
expect_file "last/checkpoints/step-$(printf %08d "$step")/manifest.json"
ranks_ 2 "$MUSTER" train ps.yaml --set run.directory=last --resume --set run.steps=$((step + 100))
expect_exit 0
expect_contains "resumed at step $step"

case_ "the state of workers' own optimizers is in no checkpoint: adam cannot go on without it, nor can it be handed over"
own=(--set run.directory=own --set 'optimizer={adam: {lr: 0.01}}' --set eval.every=never)
ranks_ 3 "$MUSTER" train ps.yaml "${own[@]}" --set run.steps=100 --set parallel.push_every=4
expect_exit 0
ranks_ 3 "$MUSTER" train ps.yaml "${own[@]}" --set run.steps=200 --resume
expect_exit 2
expect_contains 'holds no state of the optimizer'
ranks_ 3 "$MUSTER" train ps.yaml "${own[@]}" --set run.steps=200 --set parallel.push_every=4 --resume
expect_exit 0
expect_lacks 'begins empty'
ranks_ 3 "$MUSTER" train ps.yaml "${own[@]}" --set run.directory=handed --set run.steps=100
expect_exit 0
ranks_ 3 "$MUSTER" train ps.yaml "${own[@]}" --set run.directory=handed --set run.steps=200 --set parallel.push_every=4 --resume
expect_exit 0
expect_contains "the workers' own optimizers begins empty"

case_ 'a signal stops workers with long pushes'
start_ long 3 --set parallel.push_every=1000 --set run.steps=100000000 --set checkpoint.every=never --set eval.every=never
kill -USR1 "$(rank_of long 0)"
await_
expect_exit 75
expect_contains 'state saved'

case_ 'lock-step: killed and paused workers, another share for everybody, and the bytes of an undisturbed run'
lock_step="--set run.reproducible=bitwise --set parallel.staleness=0 --set run.steps=3000 --set checkpoint.every=never --set eval.every=never"
# shellcheck disable=SC2086
ranks_ 2 "$MUSTER" train ps.yaml --set run.directory=calm $lock_step
expect_exit 0
# shellcheck disable=SC2086
start_ hit 4 $lock_step
victim=$(rank_of hit 1)
paused=$(rank_of hit 3)
expect_true test -n "$victim" -a -n "$paused"
[ -n "$victim" ] && kill -KILL "$victim"
[ -n "$paused" ] && kill -STOP "$paused" && until_ 'worker 2 \(rank 3 .* is gone' && kill -CONT "$paused"
await_
expect_exit 0
expect_contains 'worker 0 (rank 1'
expect_contains 'done        3000 steps'
for file in weights.safetensors state.h5; do expect_same_file "calm/checkpoints/step-00003000/$file" "hit/checkpoints/step-00003000/$file"; done

case_ 'updates before lock_step_until are made in lock-step, the others by leases'
ranks_ 4 "$MUSTER" train ps.yaml --set run.directory=warmup --set parallel.lock_step_until=100 --set run.steps=400
expect_exit 0
expect_contains 'lock-step before update 100'
expect_equal "$(grep -o '"staleness_histogram":"[^"]*"' warmup/metrics.jsonl | head -n 5 | sort -u)" '"staleness_histogram":"0:20"' 'staleness of the first 100 updates'
expect_contains 'done        400 steps'

case_ 'a spare takes over from a worker that is gone'
start_ spare 4 --set parallel.spares=1 --set run.steps=100000000 --set checkpoint.every=never --set eval.every=never --set log.every='1000 steps'
victim=$(rank_of spare 1)
[ -n "$victim" ] && kill -KILL "$victim"
until_ 'worker 0 \(rank 1 .* is gone'
until_ 'shares 0/[1-9][0-9]*/[1-9]'
kill -USR1 "$(rank_of spare 2)"
await_
expect_exit 75

case_ 'too few ranks, too many spares: usage errors'
ranks_ 1 "$MUSTER" train ps.yaml --set run.directory=few
expect_exit 2
expect_contains 'leave no worker'
ranks_ 3 "$MUSTER" train ps.yaml --set run.directory=few --set parallel.spares=2
expect_exit 2
expect_contains 'leave none to train'
expect_no_file few

case_ 'a worker that is eight times as slow does less, and holds nobody up'
export MUSTER_SLOW_WORKER=1:8
ranks_ 4 "$MUSTER" train ps.yaml --set run.directory=slow --set parallel.staleness=unbounded --set log.every='600 steps' --set checkpoint.every=never
unset MUSTER_SLOW_WORKER
expect_exit 0
# (less than half of what the others do on average; each by itself depends on what else the machine does)
shares=$(grep -o '"worker_shares":"[^"]*' slow/metrics.jsonl | cut -d'"' -f4)
expect_equal "$(awk -F/ '{ print (4 * $2 < $1 + $3) }' <<<"$shares")" 1 "shares $shares"
export MUSTER_SLOW_WORKER=1:fast
ranks_ 3 "$MUSTER" train ps.yaml --set run.directory=slower
unset MUSTER_SLOW_WORKER
expect_exit 2
expect_contains 'expected WORKER:FACTOR'

case_ 'a checkpoint of mid-epoch goes on under a synchronous strategy, its samples audited'
ranks_ 2 "$MUSTER" train ps.yaml --set run.directory=sync --set run.steps=250
expect_exit 0
run_ "$MUSTER" train ps.yaml --set run.directory=sync --resume --set run.steps=400 --set parallel.strategy=mirrored --set parallel.servers= \
  --set parallel.staleness= --set parallel.heartbeat_deadline_s=
expect_exit 0
expect_contains 'resumed at step 250'
expect_contains 'done        400 steps'

case_ 'an exploding run ends with 7 on all ranks, also in the middle of leases'
ranks_ 4 "$MUSTER" train ps.yaml --set run.directory=boom --set optimizer.momentum.lr=1e12 --set parallel.heartbeat_deadline_s=30
expect_exit 7
expect_contains 'diverged'
expect_lacks 'lost the coordinator'
finish
