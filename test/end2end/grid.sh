#!/usr/bin/env bash
# parallel.grid: replicas x stages of a pipeline. The loss curve, the evaluations and the clipped gradient are those of one
# rank whatever the grid and the schedule; checkpoints know no grid; what cannot be honoured is refused before anything is made.
source "$(dirname "$0")/lib.sh"
LIMIT_S=60

for i in $(seq 1 60); do echo "$i: the quick brown fox number $((i * 7919 % 1000)) jumps over $((i * 31 % 97)) lazy dogs"; done >text.txt
"$MUSTER" convert text --input text.txt --output text.h5 --test-share 0.2 >/dev/null

# Both have a tail batch of 10 rows, too few for a row in every micro-batch of three replicas.
cat >gpt.yaml <<EOC
run: {name: grid, seed: 3, steps: 30, accumulate: 4}
parallel: {lr_scaling: none, allow_oversubscribe: true}
data:
  train: {file: text.h5, tokens: train/tokens, window: 16, stride: 8, range: [0, 250]}
  test: {file: text.h5, tokens: test/tokens, window: 16}
  batch: 24
  test_batch: 8
$(small_gpt_model_ 'dropout: 0.1')
optimizer: {adamw: {lr: 1e-3, clip_norm: 1}}
eval: {every: 10 steps}
checkpoint: {every: 10 steps, keep: 10}
log: {every: 1 steps}
EOC
cat >cnn.yaml <<'EOC'
run: {name: grid, seed: 7, steps: 30, accumulate: 4}
parallel: {lr_scaling: none, allow_oversubscribe: true}
data:
  synthetic: {samples: 250, test_samples: 50, classes: 5, shape: [2, 10, 10]}
  batch: 24
  test_batch: 8
  transforms: [{horizontal_flip: {probability: 0.5}}]
model:
  input: [2, 10, 10]
  layers:
    - conv2d: {filters: 16, kernel: 3, padding: same, bias: false}
    - batch_norm: {scope: {group: 2}}
    - relu
    - residual:
        main:
          - conv2d: {filters: 16, kernel: 3, padding: same, bias: false}
          - batch_norm: {scope: {group: 2}}
          - relu
          - conv2d: {filters: 16, kernel: 3, padding: same, bias: false}
          - batch_norm: {scope: {group: 2}}
    - relu
    - max_pool2d: {kernel: 2}
    - flatten
    - dense: {units: 24, activation: relu}
    - dropout: {rate: 0.3}
    - dense: {units: 5}
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.01}}
eval: {every: 10 steps}
checkpoint: {every: 10 steps, keep: 10}
log: {every: 1 steps}
EOC

# same_losses_ RUN RUN: training and test losses equal to 1e-5, 33 of them.
same_losses_() {
  local worst
  worst=$(paste <(grep -o '"loss":[^,]*' "$1/metrics.jsonl") <(grep -o '"loss":[^,]*' "$2/metrics.jsonl") |
    sed 's/"loss"://g' | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > w) w = d } END { print (NR != 33 ? NR " losses" : (w <= 1e-5 ? "ok" : w)) }')
  expect_equal "$worst" ok 'relative difference of the loss'
}

# same_accuracy_ RUN RUN LABELS: of the last evaluation; two samples with nearly equal outputs may fall on either side.
same_accuracy_() { # LABELS: per sample
  local worst
  worst=$(for run in "$1" "$2"; do grep '"split"' "$run/metrics.jsonl" | tail -1 | sed -E 's/.*"samples":([0-9]+).*"accuracy":([0-9.e-]+).*/\1 \2/'; done |
    awk -v labels="$3" '{ right[NR] = $1 * labels * $2 } END { d = right[1] - right[2]; if (d < 0) d = -d; print (NR == 2 && right[1] > 0 && d <= 2 * labels + 0.01 ? "ok" : right[1] " and " right[2]) }')
  expect_equal "$worst" ok 'right answers'
}

for net in gpt cnn; do
  labels=1
  if [ $net = gpt ]; then labels=16; fi
  case_ "$net: one rank trains, by plain accumulation"
  run_ "$MUSTER" train $net.yaml --set run.directory=$net
  expect_exit 0
  for grid in 1x2 1x3 2x1 2x2 1x4 3x2; do
    data=${grid%x*} stages=${grid#*x}
    case_ "$net: $data replica(s) of $stages stage(s) have the loss curve of one rank"
    ranks_ $((data * stages)) "$MUSTER" train $net.yaml --set run.directory=$net$grid --set parallel.grid.pipeline="$stages" --set parallel.grid.data="$data"
    expect_exit 0
    same_losses_ $net $net$grid
    same_accuracy_ $net $net$grid $labels
    if [ "$stages" -gt 1 ]; then expect_contains "stage $((stages - 1)):"; else expect_lacks 'stage 0:'; fi
    if [ "$stages" -gt 1 ]; then expect_match "memory +of stage [0-9], the largest: .* messages "; fi
    if [ "$grid" = 1x2 ]; then expect_match 'reduction +one replica of 2 stages, nothing to sum'; fi
    if [ "$grid" = 2x2 ]; then expect_match 'reduction +2 replicas of 2 stages, each stage over '; fi
  done
  case_ "$net: gpipe makes the same updates as 1f1b, to the bit"
  ranks_ 3 "$MUSTER" train $net.yaml --set run.directory=${net}g --set parallel.grid.pipeline=3 --set parallel.pipeline_schedule=gpipe
  expect_exit 0
  expect_same_file ${net}1x3/checkpoints/step-00000030/weights.safetensors ${net}g/checkpoints/step-00000030/weights.safetensors
  expect_same_file ${net}1x3/checkpoints/step-00000030/state.h5 ${net}g/checkpoints/step-00000030/state.h5
done

case_ 'a run goes on with another grid each time, and ends as if it had never stopped'
ranks_ 4 "$MUSTER" train gpt.yaml --set run.directory=moved --set parallel.grid.pipeline=2 --set run.steps=10
expect_exit 0
ranks_ 3 "$MUSTER" train gpt.yaml --set run.directory=moved --set parallel.grid.pipeline=3 --set run.steps=20 --resume
expect_exit 0
expect_contains 'resumed at step 10'
run_ "$MUSTER" train gpt.yaml --set run.directory=moved --resume
expect_exit 0
expect_contains 'resumed at step 20'
same_losses_ gpt moved

case_ 'one rank evaluates what a grid has trained'
run_ "$MUSTER" eval cnn3x2
expect_exit 0
expect_contains 'step 30  samples 50  loss '
expect_equal "$(sed -nE 's/.*loss ([0-9.]{5}).*/\1/p' <<<"$output" | tail -1)" "$(sed -nE 's/.*test .*loss ([0-9.]{5}).*/\1/p' cnn/log.txt | tail -1)" 'loss'

case_ 'sharded optimizer state inside every stage'
ranks_ 4 "$MUSTER" train gpt.yaml --set run.directory=sharded --set parallel.grid.pipeline=2 --set parallel.shard=optimizer
expect_exit 0
same_losses_ gpt sharded
expect_same_file gpt2x2/checkpoints/step-00000030/state.h5 sharded/checkpoints/step-00000030/state.h5

case_ 'a loss that is no number ends all stages with code 7'
ranks_ 3 "$MUSTER" train cnn.yaml --set run.directory=bad --set parallel.grid.pipeline=3 --set optimizer.momentum.lr=1e30
expect_exit 7
expect_match 'diverged at step [0-9]+'

# endless_ RUN RANKS DEADLINE SETTING...: a training in mid-step; only a stop or a loss ends it.
endless_() {
  "$MUSTER_SOURCE"/jobs/mpirun/muster-run -n "$2" -- train gpt.yaml --set run.directory="$1" --set run.steps=1000000 --set run.deadline_s="$3" \
    --set checkpoint.every='1000000 steps' --set eval.every='1000000 steps' "${@:4}" </dev/null >"$1.log" 2>&1 &
  launcher=$!
  started_ "$1"
}
ended_() { # RUN
  wait "$launcher"
  exit_code=$? output=$(cat "$1.log")
}
case_ 'a stop file stops all stages in the same step; the run goes on without a pipeline'
endless_ stopped 3 60 --set parallel.grid.pipeline=3
touch stopped/stop
ended_ stopped
expect_exit 0
expect_contains 'state saved'
last=$(tail -n 1 stopped/metrics.jsonl | sed -E 's/.*"step":([0-9]+).*/\1/')
run_ "$MUSTER" train gpt.yaml --set run.directory=stopped --set run.steps=$((last + 1)) --resume
expect_exit 0
expect_contains "resumed at step $last"

case_ 'a stage that is killed is named by the others, who end with code 6'
endless_ killed 3 60 --set parallel.grid.pipeline=3
kill -9 "$(rank_of killed 1)"
ended_ killed
expect_exit 6
expect_match 'lost rank 1 on .* while waiting in'

case_ 'the same with two replicas: also those who never talk to it end'
endless_ killed2 4 60 --set parallel.grid.pipeline=2
kill -9 "$(rank_of killed2 3)"
ended_ killed2
expect_exit 6
expect_match 'lost rank 3 on .* while waiting in'

case_ 'a stage that stops answering is named when the deadline is over, and the job ends with code 6'
endless_ still 3 8 --set parallel.grid.pipeline=3
still=$(rank_of still 1)
kill -STOP "$still"
ended_ still
expect_exit 6
expect_match 'was not done after 8 s; absent: rank 1 on'
for _ in $(seq 100); do [ -e "/proc/$still" ] || break; sleep 0.1; done
expect_no_file "/proc/$still"

case_ 'check prints the stages and the timeline'
run_ "$MUSTER" check cnn.yaml --ranks 2 --set parallel.grid.pipeline=2
expect_exit 0
expect_match '^stage 1: [0-9]+ layers, [0-9]+ parameters, [0-9.]+ % of the FLOPs: '
expect_contains 'stage 0 | F0 F1 .. .. B0 B0 F2 '
expect_contains '1f1b with 4 micro-batches: bubble 20.0 % with equal stages'

refused_() { # NAME RANKS TEXT SETTING...
  case_ "refused: $1"
  local ranks=$2 text=$3
  shift 3
  ranks_ "$ranks" "$MUSTER" train cnn.yaml --set run.directory=refused "$@"
  expect_exit 2
  expect_contains "$text"
  expect_equal "$(grep -cF "$text" <<<"$output")" 1 'messages'
  expect_no_file refused
}
refused_ 'fewer micro-batches than stages' 3 'a pipeline of 3 stages needs at least 3 micro-batches, found 2' \
  --set parallel.grid.pipeline=3 --set run.accumulate=2
refused_ 'more stages than places to cut' 4 '4 stages need 3 places to cut the network, it has 1; use at most 2 stages' \
  --set parallel.grid.pipeline=4 --set 'model.layers=[flatten, {dense: {units: 8}}, {dense: {units: 5}}]'
refused_ 'ranks that do not fill the grid' 3 'parallel.grid: data x pipeline x tensor = 2 x 2 x 1 needs 4 ranks, the job has 3' \
  --set parallel.grid.pipeline=2 --set parallel.grid.data=2
refused_ 'ranks that are no multiple of the stages' 3 'parallel.grid: 3 ranks cannot be shared out over replicas of 2 stages' \
  --set parallel.grid.pipeline=2
refused_ 'batch norm over the global batch' 2 'batch_norm of global scope needs the whole batch at once' \
  --set parallel.grid.pipeline=2 --set 'model.layers=[{conv2d: {filters: 4, kernel: 3}}, batch_norm, flatten, {dense: {units: 5}}]'
refused_ 'bitwise mode' 2 'more than 1 cannot go with run.reproducible: bitwise' \
  --set parallel.grid.pipeline=2 --set run.reproducible=bitwise --set run.accumulate=1
refused_ 'bfloat16 between stages' 2 'bf16 cannot go with parallel.grid.pipeline > 1' \
  --set parallel.grid.pipeline=2 --set parallel.wire=bf16
refused_ 'tensor' 2 'parallel.grid.tensor: more than 1 is not available in this version' --set parallel.grid.tensor=2
finish
