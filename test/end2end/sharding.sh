#!/usr/bin/env bash
# Sharded optimizer state (parallel.shard: optimizer): the very files of an unsharded run at every rank count, whatever the
# optimizer, also with clipping; resumable from one to the other; the state's memory falls with the ranks.
source "$(dirname "$0")/lib.sh"
LIMIT_S=180

cat >net.yaml <<'EOC'
run: {name: sharding, seed: 5, steps: 24, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 4, allow_oversubscribe: true}
data: {synthetic: {samples: 90, test_samples: 20, classes: 5, shape: [2, 8, 8]}, batch: 16}
model:
  input: [2, 8, 8]
  layers:
    - conv2d: {filters: 8, kernel: 3, padding: same, bias: false}
    - batch_norm
    - relu
    - flatten
    - dense: {units: 64, activation: relu}
    - dropout: {rate: 0.2}
    - dense: {units: 64, activation: relu}
    - dense: {units: 5}
  loss: softmax_cross_entropy
checkpoint: {every: 8 steps, keep: 10}
log: {every: 1 steps}
EOC
newest=checkpoints/step-00000024
shard="--set parallel.shard=optimizer"

same_checkpoints_() { # RUN RUN
  local file
  for file in weights.safetensors state.h5 manifest.json; do expect_same_file "$1/$newest/$file" "$2/$newest/$file"; done
}

# optimizer_kib_: the optimizer's memory per rank as the start-up table states it.
optimizer_kib_() { sed -nE 's/.*memory .* optimizer ([0-9.]+) KiB.*/\1/p' <<<"$output"; }

for kind in momentum rmsprop adamw lars lamb; do
  case $kind in
    adamw | lamb) optimizer="optimizer={$kind: {lr: 0.01, clip_norm: 0.3}}" ;;
    *) optimizer="optimizer={$kind: {lr: 0.01}}" ;;
  esac
  case_ "bitwise: $kind unsharded on one rank"
  run_ "$MUSTER" train net.yaml --set run.directory="$kind" --set "$optimizer"
  expect_exit 0
  for n in 1 2 3 4; do
    case_ "bitwise: $kind sharded over $n ranks leaves the bytes of an unsharded rank"
    # shellcheck disable=SC2086
    ranks_ "$n" "$MUSTER" train net.yaml --set run.directory="$kind$n" --set "$optimizer" $shard
    expect_exit 0
    same_checkpoints_ "$kind" "$kind$n"
    if [ "$n" -gt 1 ]; then expect_contains "optimizer state in $n parts"; else expect_lacks 'optimizer state in'; fi
    if [ "$kind" = adamw ]; then
      if [ "$n" = 1 ]; then whole=$(optimizer_kib_); fi
      expect_true awk -v whole="$whole" -v part="$(optimizer_kib_)" -v n="$n" \
        'BEGIN { exit !(whole > 0 && part > 0 && part <= whole / n * 1.02 + 0.1) }'
    fi
  done
done

adamw="optimizer={adamw: {lr: 0.01, clip_norm: 0.3}}"
case_ 'clipping has an effect in these runs'
run_ "$MUSTER" train net.yaml --set run.directory=unclipped --set 'optimizer={adamw: {lr: 0.01}}'
expect_exit 0
expect_file "adamw/$newest/weights.safetensors"
if cmp -s "adamw/$newest/weights.safetensors" "unclipped/$newest/weights.safetensors"; then fail_case 'no effect'; fi

case_ 'bitwise: messages between nodes leave the same bytes'
export MUSTER_FAKE_NODE_SIZE=2
# shellcheck disable=SC2086
ranks_ 3 "$MUSTER" train net.yaml --set run.directory=far --set parallel.strategy=multi_worker_mirrored --set "$adamw" $shard
unset MUSTER_FAKE_NODE_SIZE
expect_exit 0
same_checkpoints_ adamw far

case_ 'bitwise: sharded over 2 ranks, then over 3, then unsharded on 4: the same bytes'
# shellcheck disable=SC2086
ranks_ 2 "$MUSTER" train net.yaml --set run.directory=moved --set "$adamw" --set run.steps=8 $shard
expect_exit 0
# shellcheck disable=SC2086
ranks_ 3 "$MUSTER" train net.yaml --set run.directory=moved --set "$adamw" --set run.steps=16 $shard --resume
expect_exit 0
expect_contains 'resumed at step 8'
ranks_ 4 "$MUSTER" train net.yaml --set run.directory=moved --set "$adamw" --resume
expect_exit 0
expect_contains 'resumed at step 16'
same_checkpoints_ adamw moved

case_ 'fast: the loss curve of a sharded run to 1e-5'
fast="--set run.reproducible=fast --set parallel.grains=auto"
# shellcheck disable=SC2086
run_ "$MUSTER" train net.yaml --set run.directory=f1 --set "$adamw" $fast
expect_exit 0
for n in 2 3 4; do
  # shellcheck disable=SC2086
  ranks_ "$n" "$MUSTER" train net.yaml --set run.directory="f$n" --set "$adamw" $fast $shard
  expect_exit 0
  worst=$(paste <(grep -o '"loss":[^,]*' f1/metrics.jsonl) <(grep -o '"loss":[^,]*' "f$n/metrics.jsonl") |
    sed 's/"loss"://g' | awk '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > w) w = d } END { print (NR < 24 ? "none" : (w <= 1e-5 ? "ok" : w)) }')
  expect_equal "$worst" ok "relative difference of the loss on $n ranks"
done

for level in gradients parameters; do
  case_ "$level cannot be honoured: one message, nothing made"
  run_ "$MUSTER" train net.yaml --set run.directory=refused --set parallel.shard="$level" --set "$adamw"
  expect_exit 2
  expect_contains "parallel.shard: $level is not available in this version; use optimizer or none"
  expect_no_file refused
done
finish
