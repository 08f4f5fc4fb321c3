#!/usr/bin/env bash
# Workers are killed at random moments, again and again: every run does all its batches, each sample of an epoch once (the
# run itself checks that), and none hangs. KILLS: how many runs; SEED: of the moments and victims.
source "$(dirname "$0")/../end2end/lib.sh"
kills=${KILLS:-6}
RANDOM=${SEED:-1}

cat >kills.yaml <<'EOC'
run: {name: kills, seed: 3, steps: 3000}
parallel: {strategy: parameter_server, servers: 1, staleness: 4, heartbeat_deadline_s: 1.5, allow_oversubscribe: true}
device: {threads: 1}
data: {synthetic: {samples: 1500, test_samples: 300, classes: 3, shape: [64]}, batch: 30}
model:
  input: [64]
  layers: [{dense: {units: 96}}, batch_norm, relu, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.01}}
checkpoint: {every: 500 steps, keep: 2}
eval: {every: 500 steps}
log: {every: 20 steps}
EOC

gone=0
for i in $(seq "$kills"); do
  workers=$((2 + RANDOM % 3)) victim=$((1 + RANDOM % workers)) staleness=$((RANDOM % 3 * 2)) share=$((RANDOM % 50))
  steps=$((staleness == 0 ? 600 : 4000))  # lock-step waits for the deadline of the one that is gone
  moment=$((steps * share / 100))
  case_ "kill $i: worker $((victim - 1)) of $workers after step $moment of $steps, staleness $staleness"
  bash "$MUSTER_SOURCE/jobs/mpirun/muster-run" -n $((workers + 1)) -- train kills.yaml --force --set run.directory="$PWD/run" \
    --set parallel.staleness="$staleness" --set run.steps="$steps" >log 2>&1 &
  job=$!
  process=''
  for _ in $(seq 600); do process=$(rank_of "$PWD/run" "$victim"); [ -n "$process" ] && break; sleep 0.02; done
  for _ in $(seq 6000); do [ "$(sed -nE 's/^step +([0-9]+).*/\1/p' log | tail -n 1)0" -ge "${moment}0" ] && break; sleep 0.01; done
  expect_true kill -KILL "$process"
  if grep -q '^done' log; then fail_case 'the run was over before the kill'; fi
  end=$((SECONDS + LIMIT_S))
  while kill -0 "$job" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do sleep 0.05; done
  if kill -0 "$job" 2>/dev/null; then fail_case 'it hangs'; kill -KILL "$job"; fi
  wait "$job"
  expect_equal "$?" 0 "exit code: $(tail -n 2 log)"
  output=$(cat log)
  expect_contains "done        $steps steps"
  expect_match "^test +step $steps "
  expect_lacks 'error'
  expect_true test ! -e run/errors
  if [[ $output == *"worker $((victim - 1)) (rank $victim "*"is gone"* ]]; then gone=$((gone + 1)); fi
  rm -rf run
done

case_ 'those that were killed were missed'
expect_equal "$gone" "$kills" 'runs that told of it'
finish
