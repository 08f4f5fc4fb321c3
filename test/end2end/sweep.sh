#!/usr/bin/env bash
# Sweeps: every trial is the run it would be by itself, whichever group had it; failing trials are recorded; a killed or
# stopped sweep goes on and repeats nothing.
source "$(dirname "$0")/lib.sh"

cat >base.yaml <<'EOC'
run: {name: sweep, seed: 3, steps: 60, reproducible: bitwise}
parallel: {lr_scaling: none, grains: 4, allow_oversubscribe: true}
data: {synthetic: {samples: 300, test_samples: 60, classes: 3, shape: [8]}, batch: 20}
model:
  input: [8]
  layers: [{dense: {units: 16, activation: relu}}, {dense: {units: 3}}]
  loss: softmax_cross_entropy
optimizer: {momentum: {lr: 0.01}}
checkpoint: {every: 10 steps, keep: 2}
log: {every: 10 steps}
EOC
# sweep_ NAME LINES: base.yaml with a section sweep
sweep_() { { cat base.yaml; printf 'sweep:\n%s\n' "$2"; } >"$1.yaml"; }
column_() { python3 -c 'import csv, sys; [print(r[sys.argv[2]]) for r in csv.DictReader(open(sys.argv[1]))]' "$1" "$2"; }
last_test_() { grep '"split"' "$1/metrics.jsonl" | tail -n 1 | sed -E "s/.*\"$2\":([^,}]*).*/\1/"; }
weights_() { echo "$1"/checkpoints/step-00000060/weights.safetensors; }

# held_in_the_middle_ SWEEP N: stops the two ranks of the job (processes $held) at a moment when N trials or more have
# ended and a trial has a checkpoint and no result.
held_in_the_middle_() {
  for _ in $(seq 200); do
    held=("$(rank_of "$1" 0)" "$(rank_of "$1" 1)")
    [ -n "${held[0]}" ] && [ -n "${held[1]}" ] && break
    sleep 0.05
  done
  for _ in $(seq 2000); do
    kill -STOP "${held[@]}" || break
    is_in_the_middle_ "$@" && return
    kill -CONT "${held[@]}"
    sleep 0.01
  done
  fail_case "the sweep $1 was never in its middle (${held[*]}; $(find "$1" -maxdepth 2 -printf '%p '))"
}
is_in_the_middle_() {
  [ "$(find "$1" -name result.json 2>/dev/null | wc -l)" -ge "$2" ] || return
  for t in "$1"/trial-000*; do [ ! -e "$t/result.json" ] && [ -n "$(find "$t" -name 'step-*')" ] && return; done
  return 1
}

case_ 'a grid on two groups of two ranks'
sweep_ grid '  ranks_per_trial: 2
  keys: {optimizer.lr: [0.1, 0.01], model.layers: [[{dense: {units: 3}}], [{dense: {units: 8, activation: relu}}, {dense: {units: 3}}]], run.seed: [1, 2]}'
ranks_ 4 "$MUSTER" sweep grid.yaml --set run.directory=grid
expect_exit 0
expect_contains '8 trials done, 0 failed, 0'
expect_equal "$(column_ grid/trials.csv state | sort | uniq -c | xargs)" '8 done'
expect_equal "$(column_ grid/trials.csv optimizer.lr | xargs)" '0.1 0.1 0.1 0.1 0.01 0.01 0.01 0.01'
expect_equal "$(column_ grid/trials.csv run.seed | xargs)" '1 2 1 2 1 2 1 2'
for t in 0 3 6; do
  expect_equal "$(column_ grid/trials.csv test.loss | sed -n "$((t + 1))p")" "$(last_test_ "grid/trial-000$t" loss)" "trial $t"
done
best=$(column_ grid/trials.csv test.loss | cat -n | sort -g -k 2 | head -n 1 | awk '{print $1 - 1}')
expect_equal "$(awk 'NR == 2 {print $2}' grid/ranking.txt)" "$best" 'the best trial'

case_ 'a trial is the run it would be by itself'
run_ "$MUSTER" train base.yaml --set run.directory=alone --set optimizer.lr=0.01 --set run.seed=2 \
  --set 'model.layers=[{dense: {units: 8, activation: relu}}, {dense: {units: 3}}]'
expect_exit 0
expect_same_file "$(weights_ alone)" "$(weights_ grid/trial-0007)"

case_ 'finished trials are not run again'
touch -d '2001-01-01' grid/trial-000*/result.json
ranks_ 2 "$MUSTER" sweep grid.yaml --set run.directory=grid
expect_exit 0
expect_contains '8 of them finished'
expect_equal "$(find grid -name result.json -newermt 2002-01-01)" '' 'results written again'

case_ 'other groups, the same results: one rank per trial, one group of three'
ranks_ 3 "$MUSTER" sweep grid.yaml --set run.directory=ones --set sweep.ranks_per_trial=1
expect_exit 0
ranks_ 3 "$MUSTER" sweep grid.yaml --set run.directory=three --set sweep.ranks_per_trial=3
expect_exit 0
for other in ones three; do
  for t in 0 1 2 3 4 5 6 7; do expect_same_file "$(weights_ "grid/trial-000$t")" "$(weights_ "$other/trial-000$t")"; done
  expect_equal "$(cut -d, -f 1-4 $other/trials.csv)" "$(cut -d, -f 1-4 grid/trials.csv)"
  expect_same_file $other/ranking.txt grid/ranking.txt
done

case_ 'a random sweep draws what its seed says, and ranks by the accuracy, the highest first'
sweep_ random '  method: random
  trials: 6
  seed: 5
  metric: test.accuracy
  keys: {optimizer.lr: {from: 0.0001, to: 0.1, scale: log}, data.batch: {from: 20, to: 40, integer: true}, optimizer.weight_decay: [0, 0.01]}'
for name in random again; do
  ranks_ 2 "$MUSTER" sweep random.yaml --set run.directory=$name
  expect_exit 0
done
expect_equal "$(cut -d, -f 1-4,6- again/trials.csv)" "$(cut -d, -f 1-4,6- random/trials.csv)"
expect_same_file random/ranking.txt again/ranking.txt
expect_true test "$(column_ random/trials.csv optimizer.lr | sort -u | wc -l)" -eq 6
expect_equal "$(column_ random/trials.csv optimizer.lr | awk '$1 < 0.0001 || $1 > 0.1')" ''
expect_equal "$(column_ random/trials.csv data.batch | awk '$1 < 20 || $1 > 40 || $1 != int($1)')" ''
expect_equal "$(awk 'NR > 1 {print $3}' random/ranking.txt)" "$(awk 'NR > 1 {print $3}' random/ranking.txt | sort -g -r)"

case_ 'trials that fail are recorded, the others go on: on one rank and on two'
sweep_ fails '  keys: {optimizer.lr: [0.01, 1.0e+30, 0.02], model.weights: [~, absent.safetensors]}'
for ranks in 1 2; do
  ranks_ 2 "$MUSTER" sweep fails.yaml --set run.directory=fails$ranks --set sweep.ranks_per_trial=$ranks
  expect_exit 0
  expect_contains '2 trials done, 4 failed, 0'
  expect_equal "$(column_ fails$ranks/trials.csv exit_code | xargs)" '0 8 7 8 0 8'
  expect_contains 'trial    2 failed with code 7: diverged'
  expect_equal "$(grep -c failed fails$ranks/ranking.txt)" 4
done

case_ 'nothing but failures: the code of the first'
sweep_ bad '  keys: {optimizer.lr: [1.0e+30, 1.0e+31]}'
ranks_ 2 "$MUSTER" sweep bad.yaml --set run.directory=bad
expect_exit 7

case_ 'killed in the middle and started again: the results of an undisturbed sweep, nothing repeated'
sweep_ long '  keys: {optimizer.lr: [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]}'
long=(--set run.steps=9000 --set 'log.every=300 steps' --set 'checkpoint.every=300 steps' --set 'eval.every=never')
mpirun -n 2 "$MUSTER" sweep long.yaml --set run.directory=killed "${long[@]}" >log 2>&1 &
launcher=$!
held_in_the_middle_ killed 2
kill -KILL "${held[@]}"
wait $launcher
expect_true test $? -ne 0
finished=$(find killed -name result.json | wc -l)
expect_true test "$finished" -ge 2
expect_true test "$finished" -lt 6
find killed -name result.json -exec touch -d '2001-01-01' {} +
ranks_ 2 "$MUSTER" sweep long.yaml --set run.directory=killed "${long[@]}"
expect_exit 0
expect_contains "$finished of them finished"
expect_equal "$(find killed -name result.json ! -newermt 2002-01-01 | wc -l)" "$finished" 'results left as they were'
expect_true grep -q 'resumed at step' killed/trial-000*/log.txt
ranks_ 2 "$MUSTER" sweep long.yaml --set run.directory=calm "${long[@]}"
expect_exit 0
for t in 0 1 2 3 4 5; do
  expect_same_file "killed/trial-000$t/checkpoints/step-00009000/weights.safetensors" "calm/trial-000$t/checkpoints/step-00009000/weights.safetensors"
done
expect_same_file killed/ranking.txt calm/ranking.txt

case_ 'USR1: the trials save, code 75; two jobs at once then share what is left'
mpirun -n 2 "$MUSTER" sweep long.yaml --set run.directory=stopped "${long[@]}" >log 2>&1 &
launcher=$!
held_in_the_middle_ stopped 0
kill -USR1 $launcher
sleep 0.2 # mpirun passes it on
kill -CONT "${held[@]}"
wait $launcher
exit_code=$? output=$(cat log)
expect_exit 75
expect_contains 'start the sweep again'
finished=$(find stopped -name result.json | wc -l)
"$MUSTER" sweep long.yaml --set run.directory=stopped "${long[@]}" >log 2>&1 &
other=$!
run_ "$MUSTER" sweep long.yaml --set run.directory=stopped "${long[@]}"
expect_exit 0
wait $other
expect_true test $? -eq 0
expect_equal "$(cat log <(echo "$output") | grep -cE 'trial +[0-9]+ +done:')" $((6 - finished)) 'trials finished by the two'
expect_same_file stopped/ranking.txt calm/ranking.txt

case_ 'parameter servers in the trials'
sweep_ servers '  ranks_per_trial: 2
  keys: {optimizer.lr: [0.01, 0.02, 0.03]}'
ranks_ 4 "$MUSTER" sweep servers.yaml --set run.directory=servers --set parallel.strategy=parameter_server \
  --set parallel.staleness=0 --set parallel.servers=1
expect_exit 0
expect_contains '3 trials done, 0 failed'

case_ 'bad input is told before anything is written'
sweep_ wrong '  ranks_per_trial: 2
  metod: grid
  keys: {optimizer.lr: 0.1}'
run_ "$MUSTER" sweep wrong.yaml
expect_exit 2
expect_contains "did you mean 'method'"
sweep_ wrong '  keys: {optimizer.lr: 0.1, run.name: [a, b]}'
run_ "$MUSTER" sweep wrong.yaml
expect_exit 2
expect_contains 'sweep.keys.optimizer.lr: expected a list of values'
expect_contains 'sweep.keys.run.name: cannot vary'
sweep_ wrong '  keys: {optimizer.lr: [0.1, -1], data.btach: [20]}'
run_ "$MUSTER" sweep wrong.yaml
expect_exit 2
expect_contains "did you mean 'batch'"
sweep_ wrong '  keys: {optimizer.lr: [0.1, -1]}'
run_ "$MUSTER" sweep wrong.yaml
expect_exit 2
expect_match 'sweep, trial 1: optimizer.momentum.lr: '
ranks_ 3 "$MUSTER" sweep grid.yaml --set run.directory=uneven
expect_exit 2
expect_contains 'does not divide the 3 ranks'
run_ "$MUSTER" sweep base.yaml
expect_exit 2
expect_contains 'sweep: missing'
run_ "$MUSTER" train grid.yaml
expect_exit 2
expect_contains 'start them with muster sweep'
run_ "$MUSTER" sweep fails.yaml --set run.directory=grid
expect_exit 2
expect_contains 'holds another sweep'
run_ "$MUSTER" sweep fails.yaml --set optimizer.lr=2
expect_exit 2
expect_contains 'is varied by the sweep'
expect_no_file runs
expect_no_file uneven

case_ 'a metric that is not there: the trial fails and says what there is'
ranks_ 1 "$MUSTER" sweep bad.yaml --set run.directory=metric --set sweep.metric=test.los --set sweep.keys='{optimizer.lr: [0.01]}'
expect_exit 2
expect_contains "did you mean 'test.loss'"
finish
