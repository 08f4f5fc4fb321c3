#!/usr/bin/env bash
# Recorded asynchronous runs of every shape, some with a worker killed, are computed again on another number of ranks and
# must leave the same bits: no update was lost, torn, or applied twice. REPLAY_RUNS: how many.
source "$(dirname "$0")/../end2end/lib.sh"
LIMIT_S=240
runs=${REPLAY_RUNS:-10}

cat >replay.yaml <<'EOC'
run: {name: replay, seed: 3, steps: 240}
parallel: {strategy: parameter_server, servers: 1, heartbeat_deadline_s: 1.5, allow_oversubscribe: true, record: true}
device: {threads: 1}
data: {synthetic: {samples: 1000, test_samples: 300, classes: 3, shape: [64]}, batch: 30}
model:
  input: [64]
  layers: [{dense: {units: 96}}, batch_norm, relu, {dropout: {rate: 0.1}}, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.01}}
schedule: {cosine: {warmup_steps: 20}}
checkpoint: {every: 80 steps, keep: 5}
eval: {every: 200 steps}
log: {every: 20 steps}
EOC
optimizers=('{momentum: {lr: 0.01}}' '{adam: {lr: 0.01, clip_norm: 0.5}}' '{lamb: {lr: 0.01}}' '{rmsprop: {lr: 0.001}}' '{nesterov: {lr: 0.01, clip_norm: 1}}')
stalenesses=(4 unbounded 1 0 2 unbounded 8)

# a shape per run, by remainders: all combinations come up in time
for i in $(seq 0 $((runs - 1))); do
  workers=$((1 + (i + 2) % 4)) servers=$((1 + i % 2)) staleness=${stalenesses[$((i % 7))]}
  flags=(--set "run.directory=run$i" --set "run.seed=$((i + 1))" --set "parallel.servers=$servers" --set "parallel.staleness=$staleness")
  [ $((i % 3)) = 1 ] && [ "$staleness" != 0 ] && flags+=(--set "parallel.lock_step_until=$((10 * i))")
  [ $((i % 5)) = 2 ] && flags+=(--set parallel.transport=general)
  scales=$((i % 4 == 1))   # four workers without a bound: gradients are old
  [ "$scales" = 1 ] && flags+=(--set parallel.staleness_scaling=inverse --set schedule=constant)
  # shapes with old gradients, one over MPI's windows, one with two servers and a worker killed
  compensates=$((i % 4 == 0 || i == 7 || i == 9))
  [ "$compensates" = 1 ] && flags+=(--set parallel.delay_compensation=2)
  halves=$((i == 2 || i == 5 || i == 9))   # over MPI's windows; with two servers; and one of the compensated
  [ "$halves" = 1 ] && flags+=(--set parallel.wire=bf16)
  [ $((i % 4)) = 3 ] && export MUSTER_SLOW_WORKER=0:5
  kills=$((i % 3 == 0 && workers > 1))
  [ "$kills" = 1 ] && flags+=(--set run.steps=1000000 --set 'checkpoint.every=1000 steps' --set eval.every=never)
  case_ "run $i: $workers worker(s), $servers server(s), staleness $staleness, ${optimizers[$((i % 5))]}, $kills killed, compensation $compensates, bfloat16 $halves"
  bash "$MUSTER_SOURCE/jobs/mpirun/muster-run" -n $((workers + servers)) -- train replay.yaml "${flags[@]}" --set "optimizer=${optimizers[$((i % 5))]}" >log 2>&1 &
  job=$!
  if [ "$kills" = 1 ]; then
    for _ in $(seq 600); do [ -s "run$i/metrics.jsonl" ] && break; sleep 0.05; done
    sleep "0.$((i % 7))"
    victim=$(rank_of "run$i" $((servers + i % workers)))
    expect_true test -n "$victim"
    [ -n "$victim" ] && kill -KILL "$victim"
    for _ in $(seq 600); do grep -q 'is gone' log && break; sleep 0.05; done
    touch "run$i/stop"   # the others have gone on meanwhile
  fi
  wait "$job"
  expect_equal "$?" 0 "exit code of the run: $(tail -n 3 log)"
  unset MUSTER_SLOW_WORKER
  [ "$kills" = 1 ] && expect_true grep -q 'is gone' log
  [ "$scales" = 1 ] && expect_true test "$(grep -c '"lr":0.00' "run$i/metrics.jsonl")" -ge 1   # below the config's 0.01
  [ "$halves" = 1 ] && expect_true grep -q 'rounded to bfloat16' log
  [ "$compensates" = 1 ] && expect_true grep -q 'delays are compensated (2)' log
  ranks_ $((1 + i % 3)) "$MUSTER" replay "run$i"
  expect_exit 0
  expect_contains 'equal to the bit'
done

case_ 'a replay without the compensation of delays differs: it was there'
ranks_ 2 "$MUSTER" replay run0 --set parallel.delay_compensation=0
expect_exit 70
expect_contains 'differs from its checkpoint'

case_ 'a resumed run is replayed over its seam, also with other numbers of servers and workers'
ranks_ 4 "$MUSTER" train replay.yaml --set run.directory=seam --set run.steps=100 --set schedule=constant
expect_exit 0
ranks_ 4 "$MUSTER" train replay.yaml --set run.directory=seam --set run.steps=200 --set schedule=constant --set parallel.servers=2 --resume
expect_exit 0
ranks_ 2 "$MUSTER" replay seam
expect_exit 0
expect_contains 'replayed    200 updates'

case_ "changes by the workers' own optimizers: one killed, one paused and back; stopped, resumed, replayed"
changes=(--set parallel.push_every=3 --set parallel.staleness=2 --set parallel.servers=2 --set 'optimizer={adam: {lr: 0.01, clip_norm: 0.5}}')
changes+=(--set schedule=constant --set checkpoint.every=never --set eval.every=never --set log.every='500 steps' --set data.batch=300)
: >log   # appended to, by us too
bash "$MUSTER_SOURCE/jobs/mpirun/muster-run" -n 5 -- train replay.yaml --set run.directory=changes --set run.steps=100000000 "${changes[@]}" >>log 2>&1 &
job=$!
until_() { for _ in $(seq 1200); do sed -n "/${2:-^}/,\$p" log | grep -qE "$1" && return; sleep 0.05; done; fail_case "the log never said '$1'"; }
until_ 'step '
kill -KILL "$(rank_of changes 2)"
kill -STOP "$(rank_of changes 3)"
until_ 'worker 1 \(rank 3 .* is gone'
kill -CONT "$(rank_of changes 3)"
until_ 'worker 1 \(rank 3 .* is back'
echo 'it is back' >>log
until_ 'shares 0/[1-9][0-9]*/[1-9][0-9]* %' 'it is back'
kill -USR1 "$(rank_of changes 4)"
wait "$job"
expect_equal "$?" 75 "exit code of the run: $(tail -n 3 log)"
expect_true grep -q "changes made by 3 steps of a worker's own adam" log
step=$(find changes/checkpoints -name 'step-*' | sed 's/.*step-0*//')
fresh_() { grep -c '"is_fresh":1' changes/record.jsonl; }
before=$(fresh_) # 3, or 4: one that was paused while it had nothing under way goes on with its own state
expect_true test "$before" -ge 3
ranks_ 4 "$MUSTER" train replay.yaml --set run.directory=changes --resume "${changes[@]}" --set run.steps=$((step + 100))
expect_exit 0
expect_contains "resumed at step $step"
expect_true test "$(fresh_)" -gt "$before"
ranks_ 2 "$MUSTER" replay changes
expect_exit 0
expect_contains "2 checkpoints equal to the bit, the last of step $((step + 100))"

case_ 'elastic averaging: workers with weights of their own, resumed, replayed, and the model of the servers learns'
elastic=(--set parallel.elastic=0.2 --set parallel.push_every=4 --set schedule=constant --set 'optimizer={momentum: {lr: 0.01}}')
elastic+=(--set parallel.wire=bf16)
ranks_ 4 "$MUSTER" train replay.yaml --set run.directory=elastic "${elastic[@]}" --set run.steps=200
expect_exit 0
expect_contains 'takes both 0.2 of the way to each other'
ranks_ 4 "$MUSTER" train replay.yaml --set run.directory=elastic "${elastic[@]}" --set run.steps=500 --set parallel.servers=2 --resume
expect_exit 0
loss=$(grep '"split":"test"' elastic/metrics.jsonl | tail -n 1 | grep -o '"loss":[^,]*' | cut -d: -f2)
expect_equal "$(awk -v l="$loss" 'BEGIN { print (l > 0 && l < 0.2) }')" 1 "loss $loss below 0.2"
ranks_ 3 "$MUSTER" replay elastic
expect_exit 0
expect_contains 'equal to the bit, the last of step 500'
ranks_ 2 "$MUSTER" replay elastic --set parallel.elastic=0.25
expect_exit 70

case_ "a single worker's changes are the steps of a run without servers, but for rounding"
alone=(--set run.steps=200 --set parallel.record= --set 'optimizer={momentum: {lr: 0.01}}' --set parallel.heartbeat_deadline_s=)
run_ "$MUSTER" train replay.yaml --set run.directory=single "${alone[@]}" --set parallel.strategy=mirrored --set parallel.servers=
expect_exit 0
ranks_ 2 "$MUSTER" train replay.yaml --set run.directory=one "${alone[@]}" --set parallel.push_every=7
expect_exit 0
# (lines of the log come with pushes here, so only the evaluations are of the same step)
losses=$(for run in single one; do grep '"split":"test"' "$run/metrics.jsonl" | tail -n 1 | grep -o '"loss":[^,]*' | cut -d: -f2; done | tr '\n' ' ')
expect_equal "$(awk '{ d = $1 - $2; print (NF == 2 && $1 > 0 && d * d < 1e-6 * $1 * $1) }' <<<"$losses")" 1 "losses $losses differ"
expect_equal "$(grep -o '"batches":[0-9]*' one/record.jsonl 2>/dev/null | head -n 1)" "" 'a record that was not asked for'

case_ 'a record that is not the run: the difference is named'
sed -i 's/"step":150,"batch":[0-9]*,/"step":150,"batch":7,/' seam/record.jsonl
run_ "$MUSTER" replay seam
expect_exit 70
expect_contains 'the replay of step 160 differs from its checkpoint: element'

case_ 'a run without a record, and one that misses updates'
ranks_ 2 "$MUSTER" train replay.yaml --set run.directory=none --set parallel.record=false --set run.steps=20
run_ "$MUSTER" replay none
expect_exit 2
expect_contains 'none/record.jsonl: not found; a run is recorded with parallel.record: true'
sed -i '/"step":50,/d' seam/record.jsonl
run_ "$MUSTER" replay seam
expect_exit 2
expect_contains 'expected update 50, found 51; parts of the run were not recorded'
finish
