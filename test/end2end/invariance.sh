#!/usr/bin/env bash
# The promise: a result is a function of config, seed and sample index, never of the rank count. A CNN with batch norm over
# the global batch, dropout, augmentation and a tail batch; 200 steps.
source "$(dirname "$0")/lib.sh"
LIMIT_S=120

cat >cnn.yaml <<'EOC'
run: {name: invariance, seed: 7, steps: 200, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 8, allow_oversubscribe: true}
data:
  synthetic: {samples: 500, test_samples: 130, classes: 5, shape: [2, 10, 10]}
  batch: 24
  test_batch: 32
  transforms: [{random_crop: {padding: 1}}, {horizontal_flip: {probability: 0.5}}, {cutout: {size: 3}}]
model:
  input: [2, 10, 10]
  layers:
    - conv2d: {filters: 16, kernel: 3, padding: same, bias: false}
    - batch_norm
    - relu
    - dropout: {rate: 0.1}
    - residual:
        main:
          - conv2d: {filters: 16, kernel: 3, padding: same, bias: false}
          - batch_norm
    - relu
    - max_pool2d: {kernel: 2}
    - flatten
    - dense: {units: 24, activation: relu}
    - dropout: {rate: 0.3}
    - dense: {units: 5}
  loss: {softmax_cross_entropy: {label_smoothing: 0.1}}
optimizer: {adamw: {lr: 3e-3, weight_decay: 0.02}}
checkpoint: {every: 50 steps, keep: 10}
log: {every: 20 steps}
EOC
newest=checkpoints/step-00000200

# metrics_ RUN: the loss and accuracy columns, which must not depend on the rank count.
metrics_() { sed -E 's/"(samples_per_s|exposed_comm|input_stall|step_ms_p20|step_ms_median)":[^,}]*,?//g' "$1/metrics.jsonl"; }

same_checkpoints_() { # RUN RUN
  local file
  for file in weights.safetensors state.h5 manifest.json; do expect_same_file "$1/$newest/$file" "$2/$newest/$file"; done
}

case_ 'one rank trains'
run_ "$MUSTER" train cnn.yaml --set run.directory=r1
expect_exit 0
expect_file "r1/$newest/weights.safetensors"
expect_contains 'loss'

for n in 2 3 4; do
  case_ "bitwise: $n ranks leave the bytes of one rank"
  ranks_ "$n" "$MUSTER" train cnn.yaml --set run.directory="r$n"
  expect_exit 0
  same_checkpoints_ r1 "r$n"
  expect_equal "$(metrics_ "r$n")" "$(metrics_ r1)" 'metrics'
done

case_ 'bitwise: messages between nodes leave the same bytes as shared memory'
export MUSTER_FAKE_NODE_SIZE=2
ranks_ 3 "$MUSTER" train cnn.yaml --set run.directory=rm --set parallel.strategy=multi_worker_mirrored
unset MUSTER_FAKE_NODE_SIZE
expect_exit 0
same_checkpoints_ r1 rm

# Parameter servers whose workers wait for each other make the same updates as everybody.
lock_step="--set parallel.strategy=parameter_server --set parallel.staleness=0 --set parallel.lr_scaling="
for shape in '2 1 shared' '3 1 shared' '4 1 shared' '4 1 general' '4 2 shared'; do
  read -r n servers transport <<<"$shape"
  case_ "bitwise: $servers server(s) and $((n - servers)) worker(s) in lock-step, $transport windows, leave the bytes of one rank"
  # shellcheck disable=SC2086
  ranks_ "$n" "$MUSTER" train cnn.yaml --set run.directory="s$n$servers$transport" $lock_step --set parallel.servers="$servers" --set parallel.transport="$transport"
  expect_exit 0
  same_checkpoints_ r1 "s$n$servers$transport"
  expect_equal "$(grep -o '"loss":[^,]*' "s$n$servers$transport/metrics.jsonl" | sort)" "$(grep -o '"loss":[^,]*' r1/metrics.jsonl | sort)" 'losses'
done

case_ 'bitwise: clipping by the norm of the whole gradient, on one rank and on two servers with two workers'
run_ "$MUSTER" train cnn.yaml --set run.directory=n1 --set optimizer.clip_norm=0.5
expect_exit 0
if cmp -s "r1/$newest/weights.safetensors" "n1/$newest/weights.safetensors"; then fail_case 'clipping has no effect'; fi
# shellcheck disable=SC2086
ranks_ 4 "$MUSTER" train cnn.yaml --set run.directory=n4 $lock_step --set parallel.servers=2 --set optimizer.clip_norm=0.5
expect_exit 0
same_checkpoints_ n1 n4

case_ 'bitwise: another seed gives other bytes'
run_ "$MUSTER" train cnn.yaml --set run.directory=other --set run.seed=8
expect_exit 0
if cmp -s "r1/$newest/weights.safetensors" "other/$newest/weights.safetensors"; then fail_case 'the seed has no effect'; fi

case_ 'bitwise: resumed in mid-epoch on another rank count, the same bytes'
ranks_ 2 "$MUSTER" train cnn.yaml --set run.directory=rr --set run.steps=50
expect_exit 0
ranks_ 3 "$MUSTER" train cnn.yaml --set run.directory=rr --resume
expect_exit 0
expect_contains 'resumed at step 50'
same_checkpoints_ r1 rr

case_ 'bitwise: kill -9 and resume, the same bytes and no step twice in the metrics'
"$MUSTER" train cnn.yaml --set run.directory=rk >rk.log 2>&1 &
victim=$!
for _ in $(seq 300); do [ -d rk/checkpoints/step-00000050 ] && break; sleep 0.02; done
kill -9 "$victim" 2>/dev/null
wait "$victim" 2>/dev/null
expect_equal "$?" 137 'exit code of the killed run'
expect_no_file "rk/$newest"
run_ "$MUSTER" train cnn.yaml --set run.directory=rk --resume
expect_exit 0
same_checkpoints_ r1 rk
expect_equal "$(grep -c '"step":100,' rk/metrics.jsonl)" "$(grep -c '"step":100,' r1/metrics.jsonl)" 'lines of step 100'

case_ 'cpu and ref agree where the input itself is the shortcut of a residual block'
for device in cpu ref; do
  run_ "$MUSTER" train cnn.yaml --set run.directory="d$device" --set device.kind="$device" --set run.steps=3 --set parallel.grains=2 \
    --set checkpoint.every=never --set log.every='1 steps' \
    --set 'model.layers=[{residual: {main: [{conv2d: {filters: 2, kernel: 1, bias: false}}, batch_norm]}}, relu, flatten, {dense: {units: 5}}]'
  expect_exit 0
done
worst=$(paste <(grep -o '"loss":[^,]*' dcpu/metrics.jsonl) <(grep -o '"loss":[^,]*' dref/metrics.jsonl) |
  sed 's/"loss"://g' | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > w) w = d } END { print (NR < 3 ? "none" : (w <= 1e-5 ? "ok" : w)) }')
expect_equal "$worst" ok 'relative difference of the loss'

# Grains of one row beside grains of two: libraries lay weights out by the number of rows, but slices must fit together.
for layer in 'flatten, {dense: {units: 4}}' '{conv2d: {filters: 5, kernel: 3}}, batch_norm, relu, flatten, {dense: {units: 4}}'; do
  cat >uneven.yaml <<EOC
run: {name: uneven, seed: 3, steps: 6, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 3, allow_oversubscribe: true}
data: {synthetic: {samples: 40, classes: 4, shape: [2, 6, 6]}, batch: 4}
model: {input: [2, 6, 6], layers: [$layer], loss: softmax_cross_entropy}
optimizer: {lamb: {lr: 0.01}}
EOC
  case_ "bitwise: micro-batches of one row and of two: $layer"
  for n in 1 2 3; do
    ranks_ "$n" "$MUSTER" train uneven.yaml --set run.directory="u$n" --force
    expect_exit 0
  done
  # shellcheck disable=SC2086
  ranks_ 4 "$MUSTER" train uneven.yaml --set run.directory=u4 --force $lock_step --set parallel.servers=1
  expect_exit 0
  for n in 2 3 4; do
    for file in weights.safetensors state.h5; do expect_same_file "u1/checkpoints/step-00000006/$file" "u$n/checkpoints/step-00000006/$file"; done
  done
  case_ "fast: five rows on three ranks: $layer"
  for n in 1 3; do
    ranks_ "$n" "$MUSTER" train uneven.yaml --set run.directory="v$n" --force --set run.reproducible=fast --set parallel.grains=auto --set data.batch=5 --set log.every='1 steps'
    expect_exit 0
  done
  worst=$(paste <(grep -o '"loss":[^,]*' v1/metrics.jsonl) <(grep -o '"loss":[^,]*' v3/metrics.jsonl) |
    sed 's/"loss"://g' | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > w) w = d } END { print (NR < 6 ? "none" : (w <= 1e-4 ? "ok" : w)) }')
  expect_equal "$worst" ok 'relative difference of the loss'
done

case_ 'fast: the same loss curve on 1 to 4 ranks to 1e-4'
for n in 1 2 3 4; do
  ranks_ "$n" "$MUSTER" train cnn.yaml --set run.directory="f$n" --set run.reproducible=fast --set parallel.grains=auto --set run.steps=40
  expect_exit 0
done
for n in 2 3 4; do
  worst=$(paste <(grep -o '"loss":[^,]*' f1/metrics.jsonl) <(grep -o '"loss":[^,]*' "f$n/metrics.jsonl") |
    sed 's/"loss"://g' | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > w) w = d } END { print (NR < 2 ? "none" : (w <= 1e-4 ? "ok" : w)) }')
  expect_equal "$worst" ok "relative difference of the loss on $n ranks"
done

case_ 'eval prints the same digits on 1, 2 and 3 ranks'
run_ "$MUSTER" eval r1
expect_exit 0
expect_match '^step 200  samples 130  loss '
one=$output
for n in 2 3; do
  ranks_ "$n" "$MUSTER" eval r1
  expect_equal "$output" "$one" "$n ranks"
done
finish
