#!/usr/bin/env bash
# The command line: help, usage errors, exit codes that need no data.
source "$(dirname "$0")/lib.sh"

case_ 'help lists the commands and the exit codes'
run_ "$MUSTER" --help
expect_exit 0
for command in train eval replay predict export check convert inspect report info; do expect_match "^  $command "; done
expect_contains '75 stopped by a signal'

for command in train eval replay predict export check convert inspect report info; do
  case_ "$command --help works without MPI and data"
  run_ "$MUSTER" "$command" --help
  expect_exit 0
done

case_ 'an unknown command is a usage error with a suggestion'
run_ "$MUSTER" trian x.yaml
expect_exit 2
expect_contains "did you mean 'train'"

case_ 'an unknown flag is a usage error with a suggestion'
run_ "$MUSTER" train x.yaml --resmue
expect_exit 2
expect_contains "did you mean '--resume'"

case_ 'a missing argument is a usage error'
run_ "$MUSTER" train
expect_exit 2
expect_contains 'expected CONFIG'

case_ 'a missing config file is named'
run_ "$MUSTER" train nowhere.yaml
expect_exit 2
expect_contains 'nowhere.yaml'

case_ 'info names the backends'
run_ "$MUSTER" info
expect_exit 0
expect_match '^backend +cpu: '
expect_match '^backend +ref: '

case_ 'the shipped configs are valid for 1 and 4 ranks'
for config in "$MUSTER_SOURCE"/configs/*.yaml "$MUSTER_SOURCE"/configs/*/*.yaml; do
  [ "$(basename "$config")" = reference.yaml ] && continue
  for ranks in 1 4; do
    run_ "$MUSTER" check "$config" --ranks "$ranks" --set parallel.lr_scaling=none
    [ "$exit_code" -eq 0 ] || fail_case "$config for $ranks ranks: $output"
  done
done

case_ 'a report of two runs is one page; a folder that is no run is named'
endless_mlp_ report >mlp.yaml
for seed in 1 2; do run_ "$MUSTER" train mlp.yaml --set run.directory="run$seed" --set run.steps=1000 --set run.seed="$seed"; done
run_ "$MUSTER" report run1 run2 --output page.html
expect_exit 0
output=$(cat page.html)
expect_contains '<td>run.seed</td>'
expect_match '<svg .*aria-label=.loss'
expect_equal "$(grep -c '</html>' page.html)" 1
run_ "$MUSTER" report run1 "$PWD"
expect_exit 2
expect_contains "$PWD: no metrics.jsonl there"

case_ 'an event file for TensorBoard, read back by it where it is installed'
run_ "$MUSTER" train mlp.yaml --set run.directory=board --set run.steps=1000 --set log.tensorboard=true
expect_exit 0
expect_equal "$(find board -name 'events.out.tfevents.*' | wc -l)" 1
if python3 -c 'import tensorboard' 2>/dev/null; then
  cat >read.py <<'EOP'
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
board = EventAccumulator(sys.argv[1])
board.Reload()
print([event.step for event in board.Scalars("train/loss")])
EOP
  run_ python3 read.py board
  expect_contains '[200, 400, 600, 800, 1000]'
fi

case_ 'the reference is printed and is the shipped one'
run_ "$MUSTER" check --print-reference
expect_exit 0
expect_equal "$output" "$(cat "$MUSTER_SOURCE/configs/reference.yaml")"
finish
