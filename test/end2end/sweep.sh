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

case_ 'values from outside that a varied key would override are refused'
MUSTER_OPTIMIZER_LR=0.5 run_ "$MUSTER" sweep bad.yaml --set run.directory=outside
expect_exit 2
expect_contains 'environment MUSTER_OPTIMIZER_LR: optimizer.lr: is varied by the sweep'
expect_no_file outside

case_ 'a metric that training will not write is refused before it'
ranks_ 2 "$MUSTER" sweep grid.yaml --set run.directory=metric --set sweep.metric=test.los
expect_exit 2
expect_contains "did you mean 'test.loss'"
run_ "$MUSTER" sweep bad.yaml --set run.directory=metric --set data.synthetic.test_samples=0
expect_exit 2
expect_contains "sweep.metric: 'test.loss' needs data.test"
expect_no_file metric
# what is said to be there is what a run writes
names_() { python3 - "$1" <<'EOP'
import json, sys
names = set()
for line in open(sys.argv[1]):
    line = json.loads(line)
    names |= {("test." if "split" in line else "") + k for k, v in line.items() if not isinstance(v, str)}
print(*sorted(names))
EOP
}
said_() { grep -m 1 -oE 'there are .*' <<<"$output" | sed 's/there are //; s/,//g' | tr ' ' '\n' | LC_ALL=C sort | xargs; }
ranks_ 2 "$MUSTER" sweep grid.yaml --set run.directory=metric --set sweep.metric=x
expect_equal "$(said_)" "$(names_ grid/trial-0000/metrics.jsonl)"
ranks_ 2 "$MUSTER" sweep servers.yaml --set run.directory=metric --set sweep.metric=x --set parallel.strategy=parameter_server \
  --set parallel.staleness=0 --set parallel.servers=1
expect_equal "$(said_)" "$(names_ servers/trial-0000/metrics.jsonl)"

case_ 'another metric ranks trials that are over; nothing is trained again'
find grid/trial-* -type f -exec touch -d '2001-01-01' {} +
ranks_ 2 "$MUSTER" sweep grid.yaml --set run.directory="$PWD/grid" --set sweep.metric=accuracy
expect_exit 0
expect_contains '8 of them finished'
for t in 0 5; do
  expected=$(grep -v '"split"' "grid/trial-000$t/metrics.jsonl" | tail -n 1 | sed -E 's/.*"accuracy":([^,}]*).*/\1/')
  expect_equal "$(column_ grid/trials.csv accuracy | sed -n "$((t + 1))p")" "$expected" "trial $t"
done
expect_equal "$(awk 'NR > 1 {print $3}' grid/ranking.txt)" "$(awk 'NR > 1 {print $3}' grid/ranking.txt | sort -g -r)"
expect_equal "$(find grid/trial-* -type f ! -name claim -newermt 2002-01-01)" '' 'files of trials written again'

case_ 'more trials than before: only these are run'
find random -name result.json -exec touch -d '2001-01-01' {} +
ranks_ 2 "$MUSTER" sweep random.yaml --set run.directory="$PWD/random" --set sweep.trials=8
expect_exit 0
expect_contains '8 trials by random, 6 of them finished'
expect_contains '8 trials done'
expect_equal "$(find random -name result.json -newermt 2002-01-01 | wc -l)" 2 'results written'
expect_equal "$(head -n 7 random/trials.csv | cut -d, -f 1-4,6-)" "$(cut -d, -f 1-4,6- again/trials.csv)"
run_ "$MUSTER" sweep random.yaml --set run.directory=random --set sweep.seed=6
expect_exit 2
expect_contains 'holds another sweep'

case_ 'many trials in one process: no descriptor is kept'
sweep_ many "  method: random
  trials: 100
  keys: {optimizer.lr: {from: 0.001, to: 0.1}}"
run_ bash -c 'ulimit -n 64 && exec "$@"' many "$MUSTER" sweep many.yaml --set run.directory=many --set run.steps=1
expect_exit 0
expect_contains '100 trials done, 0 failed'

case_ 'a result that one group cannot write: the others go on, its code at the end, no hang'
sweep_ unwritable '  ranks_per_trial: 2
  keys: {optimizer.lr: [0.01, 0.02, 0.03, 0.04]}'
mkdir -p unwritable/trial-0001/result-0.json.tmp
ranks_ 4 "$MUSTER" sweep unwritable.yaml --set run.directory=unwritable
expect_exit 8
expect_contains 'cannot create unwritable/trial-0001/result-0.json.tmp'
expect_contains '3 trials done, 0 failed, 1 unfinished: start the sweep again'
rmdir unwritable/trial-0001/result-0.json.tmp
ranks_ 4 "$MUSTER" sweep unwritable.yaml --set run.directory=unwritable
expect_exit 0
expect_contains '4 trials done, 0 failed'

case_ 'a damaged result: named, with the mend, by all ranks alike'
echo '{"state": "do' >unwritable/trial-0002/result.json
ranks_ 2 "$MUSTER" sweep unwritable.yaml --set run.directory=unwritable
expect_exit 8
expect_contains 'unwritable/trial-0002/result.json: expected the result of a trial'
expect_contains 'delete it to run the trial again'
expect_lacks 'MPI_ABORT'

case_ 'a rank that fails alone in a group: the job ends, the trial counts as failed, the next job runs the others'
/usr/bin/python3 - <<'EOP'
import h5py, numpy as np
images, labels = np.ones((40, 8), "f4"), (np.arange(40) % 3).astype("i4")
for name, bad in [("good", []), ("one", [15]), ("both", [5, 15])]:
    with h5py.File(name + ".h5", "w") as f:
        f["images"], f["labels"] = images, labels
        for sample in bad: f["images"][sample, 0] = np.nan
EOP
sweep_ lone '  ranks_per_trial: 2
  metric: loss
  keys: {data.train: [{file: one.h5}, {file: both.h5}, {file: good.h5}]}'
lone=(--set run.directory=lone --set data.synthetic=null --set data.shuffle=none)
for trial in 0 1; do
  ranks_ 2 "$MUSTER" sweep lone.yaml "${lone[@]}"
  expect_exit 3
  expect_contains 'sample 15 holds nan'
  expect_true grep -q '"code":3,"message":".*holds nan' lone/trial-000$trial/result.json
done
ranks_ 2 "$MUSTER" sweep lone.yaml "${lone[@]}"
expect_exit 0
expect_contains '2 of them finished'
expect_contains '1 trials done, 2 failed, 0'
mkdir -p unrecorded/trial-0000/result-1.json.tmp
ranks_ 2 "$MUSTER" sweep lone.yaml "${lone[@]}" --set run.directory=unrecorded
expect_exit 3
expect_contains 'sample 15 holds nan'
expect_contains 'the failure of trial 0 is not recorded: cannot create unrecorded/trial-0000/result-1.json.tmp'

case_ 'touch RUN/trial-N/stop ends a trial where it is; a trial that another job had is looked at again when all else is done'
sweep_ held '  metric: loss
  keys: {optimizer.lr: [0.01, 0.02, 0.03]}'
mkdir -p held/trial-0000
flock --no-fork held/trial-0000/claim sleep 600 &
holder=$!
for _ in $(seq 200); do flock -n held/trial-0000/claim true || break; sleep 0.05; done
halt_() { # TRIAL: once it trains
  for _ in $(seq 2000); do [ -s "held/trial-000$1/metrics.jsonl" ] && break; sleep 0.02; done
  touch "held/trial-000$1/stop"
}
{
  for _ in $(seq 2000); do [ -s held/trial-0001/metrics.jsonl ] && break; sleep 0.02; done
  kill $holder
  for _ in $(seq 200); do flock -n held/trial-0000/claim true && break; sleep 0.05; done
  for trial in 1 2 0; do halt_ $trial; done
} &
run_ "$MUSTER" sweep held.yaml --set run.directory=held --set run.steps=4000000 --set 'checkpoint.every=4000000 steps' \
  --set eval.every=never
wait
expect_exit 0
expect_contains '3 trials done, 0 failed, 0'
expect_equal "$(grep -oE 'trial +[0-9]+ +starts' <<<"$output" | awk '{print $2}' | xargs)" '1 2 0' 'order'
expect_equal "$(column_ held/trials.csv step | awk '$1 >= 4000000')" '' 'trials that were not ended'

case_ 'the account waits for another job longer than ranks may wait for each other in a trial'
sweep_ waiting '  metric: loss
  keys: {optimizer.lr: [0.01, 0.02]}'
{
  for _ in $(seq 2000); do [ -s waiting/trial-0000/metrics.jsonl ] && [ -s waiting/trial-0001/metrics.jsonl ] && break; sleep 0.02; done
  exec 9>>waiting/claim
  flock 9
  touch waiting/trial-000{0,1}/stop
  for _ in $(seq 2000); do [ "$(find waiting -name result.json | wc -l)" -eq 2 ] && break; sleep 0.02; done
  sleep 2.5
} &
ranks_ 2 "$MUSTER" sweep waiting.yaml --set run.directory=waiting --set run.steps=4000000 --set run.deadline_s=1 \
  --set 'checkpoint.every=4000000 steps' --set eval.every=never
wait
expect_exit 0
expect_contains '2 trials done, 0 failed, 0'
finish
