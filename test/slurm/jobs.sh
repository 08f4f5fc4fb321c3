#!/usr/bin/env bash
# The sbatch scripts as they are, in a real Slurm: each runs to its end, muster's exit code is the job's, and a chain of
# interrupted jobs loses nothing.
source "$(dirname "$0")/cluster.sh"
source "$(dirname "$0")/../end2end/lib.sh"

ln -s "$MUSTER_SOURCE/jobs" jobs   # the scripts look below the folder of sbatch
endless_mlp_ endless >endless.yaml
short=(--set run.steps=200)
across=(--set parallel.strategy=multi_worker_mirrored)   # several nodes

# submit_ SBATCH_FLAGS...: sets $job; the scripts are in jobs/slurm
submit_() {
  job=$(sbatch --parsable --chdir="$PWD" "$@" 2>&1)
  expect_true test "$job" -gt 0
}
# await_ JOB STATE: waits until the job is in it; sets $output
await_() {
  local end=$((SECONDS + LIMIT_S)) state
  while state=$(job_state "$1") && [ "$state" != "$2" ]; do
    if [ "$SECONDS" -ge "$end" ] || [[ $state =~ COMPLETED|FAILED|CANCELLED|TIMEOUT ]]; then
      fail_case "job $1 is $state, not $2"
      break
    fi
    sleep 0.1
  done
  output=$(cat "slurm-$(_job_field "$1" JobId).out" 2>&1)
}
ended_() { # JOB CODE
  await_ "$1" "$([ "$2" -eq 0 ] && echo COMPLETED || echo FAILED)"
  expect_equal "$(job_code "$1")" "$2" 'exit code of the job'
}
# again_ JOB: spares a requeued job its two minutes. Within a second of its end its nodes would refuse it, and what is said
# while it is still ending may be forgotten.
again_() {
  sleep 2
  for _ in $(seq 300); do
    scontrol update jobid="$1" starttime=now 2>/dev/null
    [ "$(job_state "$1")" = PENDING ] || return
    sleep 0.2
  done
  fail_case "job $1 does not start again: $(scontrol show job "$1" --oneliner)"
}
last_step_() { grep -o '"step":[0-9]*' "$1/metrics.jsonl" | tail -n 1 | sed 's/.*://'; }
# until_step_ RUN STEP: waits for a line of the metrics of a step beyond
until_step_() {
  for _ in $(seq 300); do [ "$(last_step_ "$1" 2>/dev/null || echo 0)" -gt "$2" ] 2>/dev/null && return; sleep 0.1; done
  fail_case "$1 never went beyond step $2"
}

case_ 'a cluster of four nodes'
output=$(cluster_up 4 2>&1) || fail_case 'no cluster to be had here'
[ ${#_whys[@]} -eq 0 ] || finish
SLURM_CONF=$PWD/cluster/slurm.conf
export SLURM_CONF OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo

case_ 'jobs that end by themselves: code 0'
submit_ --ntasks-per-node=1 --time=1 --signal=B:USR1@1 jobs/slurm/one_node.sbatch endless.yaml --set run.directory=timed
timed=$job
submit_ jobs/slurm/one_node.sbatch endless.yaml "${short[@]}" --set run.directory=one
one=$job
submit_ jobs/slurm/many_nodes.sbatch endless.yaml "${short[@]}" "${across[@]}" --set run.directory=many
many=$job
ended_ "$one" 0
expect_match 'ranks +2 on n[1-4], bitwise'
ended_ "$many" 0
expect_match 'ranks +4 on several hosts, bitwise'

case_ 'on one node and on two: the same bits'
for file in weights.safetensors state.h5; do
  expect_same_file "one/checkpoints/step-00000200/$file" "many/checkpoints/step-00000200/$file"
done

case_ 'parameter servers: code 0'
servers=(--set parallel.staleness=2 --set run.reproducible=fast --set parallel.grains=auto)
submit_ jobs/slurm/parameter_servers.sbatch endless.yaml "${short[@]}" "${servers[@]}" --set run.directory=servers
ended_ "$job" 0
expect_contains 'done        200 steps'
expect_match 'rank 3 +worker 1 on n[1-4]'

case_ 'a job array shares the trials of one sweep'
cp endless.yaml sweep.yaml
echo 'sweep: {metric: loss, keys: {optimizer.lr: [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]}}' >>sweep.yaml
submit_ --array=1-2 jobs/slurm/sweep.sbatch sweep.yaml --set run.directory=sweep
training_() { find sweep/trial-* -name metrics.jsonl -size +0 2>/dev/null | wc -l; }
for _ in $(seq 600); do [ "$(training_)" -ge 4 ] && break; sleep 0.1; done
expect_equal "$(training_)" 4 'trials at once, of two ranks in each of two jobs'
for trial in 0 1 2 3 4 5 6 7; do
  for _ in $(seq 600); do [ -s "sweep/trial-000$trial/metrics.jsonl" ] && break; sleep 0.05; done
  touch "sweep/trial-000$trial/stop"
done
for task in 1 2; do
  await_ "${job}_$task" COMPLETED
  expect_equal "$(job_code "${job}_$task")" 0 'exit code of the job'
  expect_lacks 'invalid date'
  expect_match 'trial +[0-9]+ +done'
done
output=$(cat slurm-*.out | grep -E 'trial +[0-9]+ +done')
expect_equal "$(wc -l <<<"$output")" 8 'trials run'
expect_equal "$(grep -c ',done,' sweep/trials.csv)" 8 'trials in the account'

for script in one_node many_nodes parameter_servers requeue sweep; do
  case_ "$script: muster's exit code is the job's"
  submit_ jobs/slurm/$script.sbatch "$([ $script = sweep ] && echo sweep || echo endless).yaml" --set run.sede=4
  ended_ "$job" 2
  expect_contains "did you mean 'seed'"
done

case_ 'a chain of interrupted jobs: each goes on where the one before stopped'
submit_ jobs/slurm/requeue.sbatch endless.yaml "${across[@]}" --set run.directory=chain
until_step_ chain 0
scancel --signal=USR1 --batch "$job"
await_ "$job" PENDING
expect_match "stopped +(SIGUSR1|on another rank's request) after step [0-9]+, state saved"
again_ "$job"
step=$(last_step_ chain)
until_step_ chain "$step"
scontrol requeue "$job"
await_ "$job" PENDING
expect_match 'resumed at step [0-9]+'
expect_match "stopped +(SIGTERM|on another rank's request) after step [0-9]+, state saved"
total=$((($(last_step_ chain) / 200 + 5) * 200))
sed -i "s/steps: 4000000,/steps: $total,/" endless.yaml
again_ "$job"
ended_ "$job" 0
expect_equal "$(grep -c 'resumed at step' <<<"$output")" 2 'resumes'

case_ 'the chain equals a run that was never interrupted: metrics and weights'
run_ "$MUSTER" train endless.yaml --set run.directory=whole
expect_exit 0
for file in weights.safetensors state.h5; do
  expect_same_file "chain/checkpoints/step-$(printf %08d "$total")/$file" "whole/checkpoints/step-$(printf %08d "$total")/$file"
done
figures_() { sed -E 's/"(samples_per_s|exposed_comm|input_stall|step_ms_p20|step_ms_median)":[^,}]*,?//g' "$1/metrics.jsonl"; }
expect_equal "$(diff <(figures_ chain) <(figures_ whole) | head -n 3)" '' 'lines of the metrics that differ'

case_ 'a chain without progress ends'
printf '#!/bin/sh\n[ "$1" != check ] || exec %s "$@"\nexit 75\n' "$MUSTER" >stuck
chmod +x stuck
MUSTER=$PWD/stuck submit_ jobs/slurm/requeue.sbatch endless.yaml "${across[@]}" --set run.directory=chain
ended_ "$job" 75
expect_contains "not queued again: no checkpoint in chain after step-$(printf %08d "$total")"
expect_equal "$(_job_field "$job" Restarts)" 0 'restarts'

case_ 'scancel: saved, and the chain is over'
sed -i "s/steps: $total,/steps: 4000000,/" endless.yaml
submit_ jobs/slurm/requeue.sbatch endless.yaml "${across[@]}" --set run.directory=cancelled
chain=$job
submit_ jobs/slurm/one_node.sbatch endless.yaml --set run.directory=cancelled_one
one=$job
submit_ jobs/slurm/sweep.sbatch sweep.yaml --set run.directory=cancelled_sweep
sweep=$job
for run in cancelled cancelled_one cancelled_sweep/trial-000{0,1}; do until_step_ $run 0; done
scancel "$chain" "$one" "$sweep"
for job in "$chain" "$one" "$sweep"; do
  await_ "$job" CANCELLED
  expect_equal "$(_job_field "$job" Restarts)" 0 'restarts'
  expect_match "stopped +(SIGTERM|on another rank's request) after step [0-9]+, state saved|trial +1 +stopped, state saved"
done
for run in cancelled cancelled_one cancelled_sweep/trial-000{0,1}; do
  expect_equal "$(find $run/checkpoints -maxdepth 1 -name 'step-*' | wc -l)" 1 "checkpoints of $run"
done

case_ 'parameter servers: USR1 saves, code 75'
submit_ jobs/slurm/parameter_servers.sbatch endless.yaml "${servers[@]}" --set run.directory=signalled
until_step_ signalled 0
scancel --signal=USR1 --batch "$job"
ended_ "$job" 75
expect_equal "$(find signalled/checkpoints -maxdepth 1 -name 'step-*' | wc -l)" 1 'checkpoints'

case_ 'the time limit of the job: saved before it is over, code 75'
ended_ "$timed" 75
expect_contains 'before the wall time is over'
expect_lacks 'DUE TO TIME LIMIT'
finish
