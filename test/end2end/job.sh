#!/usr/bin/env bash
# muster job: scripts for Slurm (test/slurm/jobs.sh runs one), and TensorFlow's description of a cluster put to use.
source "$(dirname "$0")/lib.sh"
endless_mlp_ job >job.yaml
many=(--ranks-per-node 2 --set parallel.strategy=multi_worker_mirrored)

case_ 'a script for several nodes that a shell can read'
run_ "$MUSTER" job job.yaml "${many[@]}" --nodes 2 --time 2-00 --partition long
expect_exit 0
expect_contains '#SBATCH --nodes=2'
expect_contains '#SBATCH --ntasks-per-node=2'
expect_contains '#SBATCH --partition=long'
expect_contains 'train job.yaml --set parallel.strategy=multi_worker_mirrored --continue'
echo "$output" >script
run_ bash -n script
expect_exit 0

case_ 'what the job would refuse is told now'
run_ "$MUSTER" job job.yaml --nodes 2
expect_exit 2
expect_contains 'use --set parallel.strategy=multi_worker_mirrored'
run_ "$MUSTER" job job.yaml "${many[@]}" --nodes 8
expect_exit 2
expect_contains 'grains'
run_ "$MUSTER" job job.yaml --set device.threads=4 --cpus-per-rank 2
expect_exit 2
expect_contains 'use --cpus-per-rank 4'
run_ "$MUSTER" job job.yaml --time never
expect_exit 2
expect_contains "--time: expected minutes, HH:MM:SS or D-HH:MM:SS, found 'never'"
run_ "$MUSTER" job job.yaml --gpus-per-node 4 --ranks-per-node 2
expect_exit 2
expect_contains 'a rank has one GPU'
run_ "$MUSTER" job job.yaml --partition 'a b'
expect_exit 2
run_ "$MUSTER" job
expect_exit 2

case_ 'a sweep'
{ cat job.yaml; echo 'sweep: {ranks_per_trial: 2, keys: {optimizer.momentum.lr: [0.1, 0.2]}}'; } >sweep.yaml
run_ "$MUSTER" job sweep.yaml --sweep --ranks-per-node 4
expect_exit 0
expect_contains '"$muster" sweep sweep.yaml'
run_ "$MUSTER" job sweep.yaml --sweep --ranks-per-node 3
expect_exit 2
expect_contains 'does not divide the 3 ranks'

case_ 'parameter servers'
run_ "$MUSTER" job job.yaml --nodes 2 --ranks-per-node 2 --set parallel.strategy=parameter_server --set parallel.servers=1 \
  --set run.reproducible=fast --set parallel.grains=auto
expect_exit 0
expect_contains 'jobs/mpirun/muster-run" -n "$SLURM_NTASKS"'

case_ 'TF_CONFIG: its host file, section and line train'
here=$(hostname)
export TF_CONFIG="{\"cluster\": {\"ps\": [\"$here:1\"], \"worker\": [\"$here:2\", \"$here:3\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}"
run_ "$MUSTER" job --from-tf-config tf.yaml
expect_exit 0
expect_equal "$(cat hosts)" "$here"$'\n'"$here"$'\n'"$here"
{ grep -v '^parallel:' job.yaml | sed 's/steps: 4000000/steps: 50/; s/, reproducible: bitwise//'; grep -v '^#' <<<"$output"; echo '  allow_oversubscribe: true'; } >tf.yaml
line=$(tail -n 1 <<<"$output" | sed 's/^# //')
read -ra words <<<"$line"
words[0]=$MUSTER_SOURCE/${words[0]}
run_ bash "${words[@]}"
expect_exit 0
expect_match 'rank 0 +server'
expect_match 'rank 2 +worker 1'
expect_contains 'done        50 steps'

case_ 'TF_CONFIG: a host file is not written over; nothing set, a wrong one'
run_ "$MUSTER" job --from-tf-config
expect_exit 2
expect_contains 'hosts exists'
unset TF_CONFIG
run_ "$MUSTER" job --from-tf-config --hosts other
expect_exit 2
expect_contains 'TF_CONFIG is not set'
export TF_CONFIG='{"cluster": {"wroker": ["a:1"]}}'
run_ "$MUSTER" job --from-tf-config --hosts other
unset TF_CONFIG
expect_exit 2
expect_contains "TF_CONFIG: cluster.wroker: unknown kind of task; did you mean 'worker'"
expect_no_file other
finish
