#!/usr/bin/env bash
# For scripts that drive the executable: a case runs a command, checks its exit code and its output, and prints one line
# `ok NAME` or `not ok NAME: why`, which test/run.sh counts. Each script runs in an empty scratch folder; $MUSTER is the
# executable and $MUSTER_SOURCE the source tree. A script that ends before `finish` counts as a failure.
#
#   source "$(dirname "$0")/lib.sh"
#   case_ 'an unknown command is a usage error'
#   run_ "$MUSTER" trian
#   expect_exit 2
#   expect_contains "did you mean 'train'"
#   finish
set -u

# Ranks beyond the cores are fine in tests; a waiting rank gives its core away.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
LIMIT_S=${LIMIT_S:-180}

_case='' _whys=() _is_finished=0
output='' exit_code=0

_close_case() {
  [ -n "$_case" ] || return 0
  if [ ${#_whys[@]} -eq 0 ]; then
    printf 'ok %s\n' "$_case"
  else
    printf 'not ok %s: %s\n' "$_case" "$(printf '%s; ' "${_whys[@]}" | tr '\n' ' ')"
    printf '%s\n' "$output" | tail -n 30 | sed 's/^/    | /'
  fi
  _case='' _whys=()
}

# case_ NAME: opens a case; closes the one before.
case_() { _close_case; _case=$1 output='' exit_code=0; }

# run_ COMMAND...: runs with a limit of $LIMIT_S seconds; sets $output (stdout and stderr) and $exit_code.
run_() {
  output=$(timeout -k 5 "$LIMIT_S" "$@" </dev/null 2>&1)
  exit_code=$?
  if [ "$exit_code" -eq 124 ] || [ "$exit_code" -eq 137 ]; then fail_case "no end within $LIMIT_S s: $*"; fi
}

# ranks_ N COMMAND...: the same under mpirun.
ranks_() { local n=$1; shift; run_ mpirun -n "$n" "$@"; }

fail_case() { _whys+=("$1"); }
expect_exit() { [ "$exit_code" -eq "$1" ] || fail_case "exit code $exit_code instead of $1"; }
expect_contains() { [[ $output == *"$1"* ]] || fail_case "no '$1' in the output"; }
expect_lacks() { [[ $output != *"$1"* ]] || fail_case "'$1' in the output"; }
expect_match() { grep -qE -- "$1" <<<"$output" || fail_case "nothing matches '$1' in the output"; }
expect_equal() { [ "$1" = "$2" ] || fail_case "'$1' instead of '$2'${3:+ ($3)}"; }
expect_file() { [ -s "$1" ] || fail_case "no file $1"; }
expect_no_file() { [ ! -e "$1" ] || fail_case "$1 exists"; }
expect_same_file() { cmp -s "$1" "$2" || fail_case "$1 and $2 differ"; }
# expect_true COMMAND...: for anything else; the command is the message.
expect_true() { "$@" || fail_case "not so: $*"; }

finish() { _close_case; _is_finished=1; exit 0; }

_at_exit() {
  [ "$_is_finished" -eq 1 ] && return
  [ -n "$_case" ] && fail_case 'the script ended here'
  _close_case
  printf 'not ok %s: ended before finish\n' "$(basename "$0")"
}
trap _at_exit EXIT

# endless_mlp_ NAME: the config of a small training that only a stop ends.
endless_mlp_() {
  cat <<EOC
run: {name: $1, seed: 3, steps: 4000000, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 4, allow_oversubscribe: true}
data: {synthetic: {samples: 300, classes: 3, shape: [8]}, batch: 20}
model:
  input: [8]
  layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.01}}
checkpoint: {every: 100000000 steps, keep: 2}
log: {every: 200 steps}
EOC
}
# small_gpt_model_ OPTIONS: the section `model` of a config for 16 tokens out of 39; options of its transformer blocks.
small_gpt_model_() {
  cat <<EOC
model:
  input: [16]
  layers:
    - embedding: {name: tokens, vocabulary: 39, width: 24}
    - positional_embedding
    - repeat:
        times: 2
        layers:
          - transformer: {name: block, heads: 4, $1}
    - layer_norm: {per_position: true}
    - dense: {units: 39, bias: false, per_position: true, tie: tokens}
  loss: softmax_cross_entropy
EOC
}
# started_ RUN: waits until the run is in mid-training.
started_() {
  for _ in $(seq 200); do [ -s "$1/metrics.jsonl" ] && return; sleep 0.05; done
  fail_case "the training in $1 did not start"
}

# rank_of RUN RANK: process of that rank of the job that trains in RUN
rank_of() {
  local file
  for file in $(grep -laP "^\\Q$MUSTER\\E\\x00.*\\x00run\\.directory=\\Q$1\\E\\x00" /proc/[0-9]*/cmdline 2>/dev/null); do
    if grep -qzx "OMPI_COMM_WORLD_RANK=$2" "${file%cmdline}environ" 2>/dev/null; then file=${file%/cmdline}; echo "${file#/proc/}"; return; fi
  done
}
