#!/usr/bin/env bash
# A disk that is full when a checkpoint is due (a limit on the size of files stands for it): exit code 8, nothing half
# written, and the run goes on from the older checkpoint when there is space again.
source "$(dirname "$0")/../end2end/lib.sh"

cat >mlp.yaml <<'EOC'
run: {name: full, seed: 3, steps: 20, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 4, allow_oversubscribe: true}
data: {synthetic: {samples: 300, classes: 3, shape: [64]}, batch: 20}
model:
  input: [64]
  layers: [{dense: {units: 4096, activation: relu}}, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {adam: {lr: 0.001}}
checkpoint: {every: 10 steps, keep: 5}
log: {every: 5 steps}
EOC
# 278 531 parameters: 1.1 MB of weights, 2.2 MB of optimizer state

limited_() { # KIB COMMAND...: no file may grow beyond KIB
  local kib=$1
  shift
  run_ bash -c "ulimit -f $kib && exec \"\$@\"" limited "$@"
}
names_in() { (cd "$1" && ls -A | tr '\n' ' '); }

case_ 'the undisturbed run'
run_ "$MUSTER" train mlp.yaml --set run.directory=whole
expect_exit 0

for limit in 500 1500; do # no room for the weights; room for them but not for the optimizer
  file=weights.safetensors
  [ "$limit" = 1500 ] && file=state.h5
  run=disk$limit

  case_ "no room for $file: exit code 8 and the reason"
  run_ "$MUSTER" train mlp.yaml --set run.directory="$run" --set run.steps=10
  expect_exit 0
  limited_ "$limit" "$MUSTER" train mlp.yaml --set run.directory="$run" --resume
  expect_exit 8
  expect_contains 'checkpoint of step 20 not written, older ones are untouched'
  expect_contains "$file"
  expect_contains 'File too large'
  expect_contains 'free disk space'
  expect_lacks 'H5'
  expect_equal "$(names_in "$run/checkpoints")" 'step-00000010 '

  case_ "no room for $file: goes on when there is space"
  run_ "$MUSTER" train mlp.yaml --set run.directory="$run" --resume
  expect_exit 0
  expect_contains 'resumed at step 10'
  expect_same_file "$run/checkpoints/step-00000020/weights.safetensors" whole/checkpoints/step-00000020/weights.safetensors
  expect_same_file "$run/checkpoints/step-00000020/state.h5" whole/checkpoints/step-00000020/state.h5
  expect_equal "$(grep -c '"step":15' "$run/metrics.jsonl")" 1 'lines of step 15'
done

case_ 'a run directory that cannot be made is a clear error'
run_ "$MUSTER" train mlp.yaml --set run.directory=/proc/none/run
expect_exit 8
expect_contains 'cannot prepare the run directory'

finish
