#!/usr/bin/env bash
# The wall time, Slurm's end of the job and the stop file: the run saves before the time is over, with the exit code that
# says whether to start again, and what goes on from there equals a run that was never stopped.
source "$(dirname "$0")/lib.sh"

endless_mlp_ wall >mlp.yaml
servers=(--set parallel.strategy=parameter_server --set parallel.servers=1 --set parallel.staleness=2 --set parallel.lr_scaling=none
  --set run.reproducible=fast --set parallel.grains=auto)

newest_step() { basename "$(find "$1/checkpoints" -name 'step-*' | sort | tail -n 1)" | sed 's/step-0*//'; }
# What training wrote, without the figures that a clock measures.
losses() { grep -v '"split"' "$1/metrics.jsonl" | sed -E 's/.*("step":[0-9]+).*/\1 &/; s/"(samples_per_s|exposed_comm|input_stall|step_ms_p20|step_ms_median)":[^,}]*,?//g'; }

case_ 'run.wall_time: saved before it is over, exit code 75'
start=$(date +%s)
ranks_ 2 "$MUSTER" train mlp.yaml --set run.directory=wall --set 'run.wall_time=5 s'
expect_exit 75
expect_contains 'before the wall time is over'
expect_true test $(($(date +%s) - start)) -le 6
expect_true test "$(newest_step wall)" -ge 1

case_ 'stopped and resumed equals never stopped: metrics and weights'
total=$(($(newest_step wall) / 200 * 200 + 400))
ranks_ 3 "$MUSTER" train mlp.yaml --set run.directory=wall --set run.steps=$total --resume
expect_exit 0
run_ "$MUSTER" train mlp.yaml --set run.directory=whole --set run.steps=$total
expect_exit 0
expect_same_file wall/checkpoints/step-*"$total"/weights.safetensors whole/checkpoints/step-*"$total"/weights.safetensors
expect_equal "$(grep -o '"step":[0-9]*' wall/metrics.jsonl | sort | uniq -d)" '' 'steps told twice'
losses wall | grep -o '"step":[0-9]*.*"loss":[^,]*' >wall.txt
losses whole | grep -o '"step":[0-9]*.*"loss":[^,]*' >whole.txt
expect_equal "$(comm -13 <(sort wall.txt) <(sort whole.txt) | wc -l)" 0 'intervals of the whole run that the chain lacks'

case_ "the end of the Slurm job counts as the wall time does"
SLURM_JOB_END_TIME=$(($(date +%s) + 5)) run_ "$MUSTER" train mlp.yaml --set run.directory=slurm
expect_exit 75
expect_contains 'before the wall time is over'

case_ 'run.wall_time: never ignores it'
SLURM_JOB_END_TIME=$(date +%s) run_ "$MUSTER" train mlp.yaml --set run.directory=never --set run.wall_time=never --set run.steps=20
expect_exit 0

case_ 'a time that is over already: one step, saved, exit code 75'
SLURM_JOB_END_TIME=$(date +%s) run_ "$MUSTER" train mlp.yaml --set run.directory=late
expect_exit 75

case_ 'no number in SLURM_JOB_END_TIME: usage'
SLURM_JOB_END_TIME=soon ranks_ 2 "$MUSTER" train mlp.yaml --set run.directory=soon
expect_exit 2
expect_contains 'SLURM_JOB_END_TIME=soon'

case_ 'a wall time that is none: usage, with the forms there are'
run_ "$MUSTER" train mlp.yaml --set 'run.wall_time=90'
expect_exit 2
expect_contains 'run.wall_time'
expect_contains 'HH:MM:SS'

for strategy in mirrored servers; do
  flags=() ranks=2
  if [ $strategy = servers ]; then flags=("${servers[@]}") ranks=3; fi
  case_ "$strategy: touch RUN/stop saves, exit code 0, and the file is gone"
  mpirun -n $ranks "$MUSTER" train mlp.yaml --set run.directory=$strategy "${flags[@]}" >log 2>&1 &
  launcher=$!
  started_ $strategy
  touch $strategy/stop
  wait $launcher
  exit_code=$? output=$(cat log)
  expect_exit 0
  expect_contains 'by the stop file'
  expect_no_file $strategy/stop
  step=$(newest_step $strategy)
  expect_true test "$step" -ge 1

  case_ "$strategy: the stopped run goes on, and its wall time ends it with exit code 75"
  ranks_ $ranks "$MUSTER" train mlp.yaml --set run.directory=$strategy "${flags[@]}" --set 'run.wall_time=00:00:05' --resume
  expect_exit 75
  expect_contains "resumed at step $step"
  expect_contains 'before the wall time is over'
done

case_ 'a stop file in the middle of evaluations: saved, exit code 0'
"$MUSTER" train mlp.yaml --set run.directory=busy --set 'eval.every=1 step' --set 'log.every=1 step' \
  --set data.synthetic.test_samples=20000 >log 2>&1 &
process=$!
started_ busy
touch busy/stop
wait $process
exit_code=$? output=$(cat log)
expect_exit 0
expect_contains 'by the stop file'

case_ 'a stop file of old does not stop a run that starts anew'
touch busy/stop
run_ "$MUSTER" train mlp.yaml --set run.directory=busy --set run.steps=300 --force
expect_exit 0
expect_contains 'done        300 steps'
finish
