#!/usr/bin/env bash
# Stopping and going on: signals save and exit 75, a second one ends at once; --resume and --force; damaged checkpoints.
source "$(dirname "$0")/lib.sh"

endless_mlp_ signals >mlp.yaml

for signal in TERM USR1 HUP INT; do
  case_ "SIG$signal: saved, exit code 75"
  "$MUSTER" train mlp.yaml --set run.directory="s$signal" >log 2>&1 &
  process=$!
  started_ "s$signal"
  kill -"$signal" "$process"
  wait "$process"
  exit_code=$? output=$(cat log)
  expect_exit 75
  expect_contains 'state saved'
  expect_equal "$(find "s$signal/checkpoints" -name 'step-*' | wc -l)" 1 'checkpoints'
done

case_ 'nohup: SIGHUP changes nothing, SIGTERM stops'
nohup "$MUSTER" train mlp.yaml --set run.directory=nohup >log 2>&1 &
process=$!
started_ nohup
kill -HUP "$process"
sleep 0.3
expect_true kill -0 "$process"
kill -TERM "$process"
wait "$process"
exit_code=$? output=$(cat log)
expect_exit 75
expect_contains 'SIGTERM'

case_ 'nobody reads the lines any more: the training goes on to its end'
"$MUSTER" train mlp.yaml --set run.directory=unread --set run.steps=2000 2>&1 | head -n 1 >first_line
expect_true test -s first_line
expect_file unread/checkpoints/step-00002000/weights.safetensors

# Nearly all the time goes into evaluations, or into checkpoints: a signal comes in the middle of one.
for busy in 'eval.every=1 step' 'checkpoint.every=1 step'; do
  for try in 1 2 3; do
    case_ "SIGTERM with $busy, try $try: saved, exit code 75, and the run goes on"
    run=busy${busy%%.*}$try
    "$MUSTER" train mlp.yaml --set run.directory="$run" --set 'log.every=1 step' --set "$busy" \
      --set data.synthetic.test_samples=20000 >log 2>&1 &
    process=$!
    started_ "$run"
    sleep "0.0$((RANDOM % 10))"
    kill -TERM "$process"
    wait "$process"
    exit_code=$? output=$(cat log)
    expect_exit 75
    expect_contains 'state saved'
    step=$(basename "$(find "$run/checkpoints" -name 'step-*' | sort | tail -n 1)" | sed 's/step-0*//')
    run_ "$MUSTER" train mlp.yaml --set run.directory="$run" --set run.steps=$((step + 3)) --resume
    expect_exit 0
    expect_contains "resumed at step $step"
  done
done

# The matrix kernels of a wide layer must survive a signal at any moment.
sed -e 's/shape: \[8\]/shape: [784]/; s/input: \[8\]/input: [784]/; s/units: 16/units: 256/; s/every: 200 steps/every: 5 steps/' mlp.yaml >wide.yaml
for try in 1 2 3 4 5 6 7 8 9 10; do
  case_ "SIGTERM into wide layers, try $try: saved, exit code 75"
  "$MUSTER" train wide.yaml --set run.directory="wide$try" >log 2>&1 &
  process=$!
  started_ "wide$try"
  sleep "0.0$((RANDOM % 10))"
  kill -TERM "$process"
  wait "$process"
  exit_code=$? output=$(cat log)
  expect_exit 75
  expect_contains 'state saved'
done

case_ 'a second signal ends a process that cannot come to its end'
mkfifo never.yaml
"$MUSTER" train never.yaml >log 2>&1 &
process=$!
for _ in $(seq 600); do   # until it catches SIGTERM
  caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$process/status")
  [ $((0x${caught:-0} >> 14 & 1)) -eq 1 ] && break
  sleep 0.05
done
kill -TERM "$process"
sleep 0.5
expect_true kill -0 "$process"
kill -TERM "$process"
wait "$process"
exit_code=$?
expect_exit 143

case_ 'a signal to one rank of three stops all of them'
mpirun -n 3 "$MUSTER" train mlp.yaml --set run.directory=three >log 2>&1 &
launcher=$!
started_ three
for child in $(pgrep -P "$launcher"); do
  if tr '\0' '\n' <"/proc/$child/environ" | grep -qx OMPI_COMM_WORLD_RANK=1; then kill -USR1 "$child"; fi
done
wait "$launcher"
exit_code=$? output=$(cat log)
expect_exit 75
expect_contains 'state saved'

case_ 'the saved run goes on where it stopped, on two ranks'
step=$(basename "$(find three/checkpoints -name 'step-*')" | sed 's/step-0*//')
ranks_ 2 "$MUSTER" train mlp.yaml --set run.directory=three --set run.steps=$((step + 40)) --resume
expect_exit 0
expect_contains "resumed at step $step"

case_ 'an existing run needs --resume or --force'
run_ "$MUSTER" train mlp.yaml --set run.directory=three --set run.steps=5
expect_exit 2
expect_contains '--resume'
expect_contains '--force'

case_ '--force starts anew'
run_ "$MUSTER" train mlp.yaml --set run.directory=three --set run.steps=5 --force
expect_exit 0
expect_equal "$(ls three/checkpoints)" step-00000005

case_ 'a damaged newest checkpoint is passed over with a warning'
run_ "$MUSTER" train mlp.yaml --set run.directory=damaged --set run.steps=20 --set checkpoint.every='10 steps'
expect_exit 0
truncate -s -4 damaged/checkpoints/step-00000020/weights.safetensors
run_ "$MUSTER" train mlp.yaml --set run.directory=damaged --set run.steps=20 --set checkpoint.every='10 steps' --resume
expect_exit 0
expect_contains 'weights.safetensors'
expect_contains 'resumed at step 10'

case_ 'no good checkpoint at all: exit code 8'
for folder in damaged/checkpoints/step-*; do rm "$folder/manifest.json"; done
run_ "$MUSTER" train mlp.yaml --set run.directory=damaged --resume
expect_exit 8
expect_equal "$(grep -o 'step-00000010[^ ;]*manifest.json' <<<"$output" | wc -l)" 1 'times each damage is told'

case_ 'a diverging run ends with code 7 and names the mend'
run_ "$MUSTER" train mlp.yaml --set run.directory=diverged --set optimizer.momentum.lr=1e20
expect_exit 7
expect_contains 'optimizer.lr'

case_ 'the loss guard ends with code 7'
run_ "$MUSTER" train mlp.yaml --set run.directory=guard --set run.max_loss=1e-6
expect_exit 7
expect_contains 'run.max_loss'
finish
