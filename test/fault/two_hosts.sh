#!/usr/bin/env bash
# Parameter servers over two hosts and TCP: workers and whole hosts die, links fall silent and come back.
source "$(dirname "$0")/hosts.sh"
source "$(dirname "$0")/../end2end/lib.sh"
LIMIT_S=240

cat >two.yaml <<'EOC'
run: {name: two, seed: 3, steps: 400}
parallel: {strategy: parameter_server, servers: 1, staleness: 4, heartbeat_deadline_s: 4, allow_oversubscribe: true, record: true}
device: {threads: 1}
data: {synthetic: {samples: 3000, test_samples: 300, classes: 3, shape: [64]}, batch: 30}
model:
  input: [64]
  layers: [{dense: {units: 128}}, batch_norm, relu, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.01}}
checkpoint: {every: 100000 steps, keep: 3}
eval: {every: 100000 steps}
log: {every: 50 steps}
EOC

# start_ RUN FLAGS...: two ranks on each host, in the background; waits until it trains
start_() {
  local run=$1
  shift
  : >log   # appended to, by us too
  on_host h1 bash "$MUSTER_SOURCE/jobs/mpirun/muster-run" -n 4 --host h1:2,h2:2 "${host_flags[@]}" -- \
    train "$PWD/two.yaml" --set run.directory="$PWD/$run" "$@" >>log 2>&1 &
  job=$!
  for _ in $(seq 400); do [ -s "$run/metrics.jsonl" ] && return; sleep 0.05; done
  fail_case "the training in $run did not start: $(tail -n 5 log)"
}
await_() {
  local end=$((SECONDS + LIMIT_S))
  while kill -0 "$job" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do sleep 0.1; done
  if kill -0 "$job" 2>/dev/null; then
    fail_case "no end within $LIMIT_S s"
    kill_host h1
    kill_host h2
  fi
  wait "$job"
  exit_code=$? output=$(cat log)
}
# until_ PATTERN [MARK]: waits for a line of the log, one after the mark
until_() {
  for _ in $(seq 600); do sed -n "/${2:-^}/,\$p" log | grep -qE "$1" && return; sleep 0.1; done
  fail_case "the log never said '$1'${2:+ after '$2'}"
}
same_bits_() {
  [ ${#_whys[@]} -eq 0 ] || return  # the training's own output tells more
  run_ "$MUSTER" replay "$1"
  expect_exit 0
  expect_contains 'equal to the bit'
}

case_ 'two hosts'
hosts_up 2 || fail_case 'no namespaces to be had here'
start_ plain
await_
expect_exit 0
expect_match 'rank 3 +worker 2 on h2'
expect_contains 'MPI one-sided'
expect_match 'transport +rank 2 on h2 reads a word in [0-9.e+]+ us, gets .* GB/s, puts .* GB/s; answered by polling'
same_bits_ plain

case_ 'a worker on the other host is killed'
start_ worker --set run.steps=4000
victim=$(rank_of "$PWD/worker" 3)
expect_true test -n "$victim"
[ -n "$victim" ] && kill -KILL "$victim"
await_
expect_exit 0
expect_match 'worker 2 .*is gone'
expect_contains 'done        4000 steps'
same_bits_ worker

case_ 'the whole other host is killed'
start_ host --set run.steps=4000
kill_host h2
await_
expect_exit 0
expect_match 'worker 1 .*is gone'
expect_match 'worker 2 .*is gone'
expect_contains 'done        4000 steps'
same_bits_ host

case_ 'the link is cut for longer than the deadline, and healed: the workers come back'
start_ link --set run.steps=100000000
link_down h2
until_ 'worker 2 .*is gone'
link_up h2
until_ 'worker 1 .*is back'
until_ 'worker 2 .*is back'
echo 'both are back' >>log
until_ 'shares [1-9][0-9]*/[1-9][0-9]*/[1-9][0-9]* %$' 'both are back'
kill -USR1 "$(rank_of "$PWD/link" 1)"
await_
expect_exit 75
same_bits_ link

case_ 'lock-step: the link is cut and healed, and the bits are those of an undisturbed run'
lock_step=(--set run.reproducible=bitwise --set parallel.staleness=0 --set run.steps=1500)
start_ calm "${lock_step[@]}"
await_
expect_exit 0
start_ hit "${lock_step[@]}"
link_down h2
until_ 'worker 2 .*is gone'
link_up h2
await_
expect_exit 0
expect_match 'worker 1 .*is gone'
for file in weights.safetensors state.h5; do expect_same_file "calm/checkpoints/step-00001500/$file" "hit/checkpoints/step-00001500/$file"; done

case_ 'the server is killed: code 6 from everybody'
start_ server --set run.steps=100000000
victim=$(rank_of "$PWD/server" 0)
expect_true test -n "$victim"
[ -n "$victim" ] && kill -KILL "$victim"
await_
expect_exit 6
expect_contains 'lost the coordinator'
finish
