#!/usr/bin/env bash
# The scripts that start muster without a batch system, as they are: on this machine, and over two hosts and TCP.
source "$(dirname "$0")/hosts.sh"
source "$(dirname "$0")/../end2end/lib.sh"
jobs=$MUSTER_SOURCE/jobs/mpirun

endless_mlp_ launched >mlp.yaml
ip link set lo up   # of the network all this lies in

# stopped_ COMMAND...: starts the training in $run, stops it by a signal to one rank once it trains, expects 75
stopped_() {
  "$@" >log 2>&1 &
  local launcher=$!
  started_ "$run"
  kill -USR1 "$(rank_of "$PWD/$run" 1)"
  for _ in $(seq 300); do kill -0 "$launcher" 2>/dev/null || break; sleep 0.1; done
  if kill -0 "$launcher" 2>/dev/null; then fail_case 'the launcher did not end'; kill -KILL "$launcher"; fi
  wait "$launcher"
  exit_code=$? output=$(cat log)
  expect_exit 75
  stop=$(sed -nE 's/.* after step ([0-9]+), state saved.*/\1/p' log)
  total=$((stop + 300))
}
same_as_whole_() {
  run_ "$MUSTER" train mlp.yaml --set run.directory="whole-$run" --set run.steps="$total"
  expect_exit 0
  for file in weights.safetensors state.h5; do
    expect_same_file "$run/checkpoints/step-$(printf %08d "$total")/$file" "whole-$run/checkpoints/step-$(printf %08d "$total")/$file"
  done
}

case_ 'workstation.sh: stopped with code 75, started again, the bits of one run'
run=work
RANKS=3 stopped_ "$jobs/workstation.sh" mlp.yaml --set run.directory="$PWD/work"
run_ "$jobs/workstation.sh" mlp.yaml --set run.directory="$PWD/work" --set run.steps="$total"
expect_exit 0
expect_contains "resumed at step $stop"
expect_match 'ranks +2 on '
same_as_whole_

case_ 'workstation.sh: bad input'
run_ "$jobs/workstation.sh" absent.yaml
expect_exit 2
run_ "$jobs/workstation.sh"
expect_exit 2
expect_contains 'workstation.sh CONFIG'

case_ 'hostfile.sh: two hosts, stopped with code 75, started again, the bits of one run'
hosts_up 2 || fail_case 'no namespaces to be had here'
printf 'h1 slots=1\n\n# the other\nh2 slots=2\n' >hostfile
run=far
over=("$PWD/agent" h1 "$jobs/hostfile.sh" "$PWD/hostfile" "${host_flags[@]}" -- "$PWD/mlp.yaml" --set parallel.strategy=multi_worker_mirrored)
stopped_ "${over[@]}" --set run.directory="$PWD/far"
run_ "${over[@]}" --set run.directory="$PWD/far" --set run.steps="$total"
expect_exit 0
expect_contains "resumed at step $stop"
expect_match 'ranks +3 on several hosts'
same_as_whole_

case_ 'hostfile.sh: bad input'
run_ "$jobs/hostfile.sh" absent -- mlp.yaml
expect_exit 2
: >empty
run_ "$jobs/hostfile.sh" empty -- mlp.yaml
expect_exit 2
expect_contains 'names no host'
run_ "$jobs/hostfile.sh" hostfile mlp.yaml
expect_exit 2
expect_contains 'expected -- CONFIG'
finish
