#!/usr/bin/env bash
# muster doctor: what it measures on one rank and on several, its findings, its exit codes.
source "$(dirname "$0")/lib.sh"

case_ 'alone: build, host, rank and the current directory'
run_ "$MUSTER" doctor
expect_exit 0
expect_contains 'mpi         Open MPI'
expect_match '^device +cpu: cpu \(oneDNN'
expect_match '^host +.*: [0-9]+ cores'
expect_match '^rank +0 '
expect_match '^directory +\.: writes [0-9]+ MB/s, a small file in .*, locks, .* free'
expect_lacks 'messages'
expect_equal "$(ls -A)" '' 'left behind'

case_ 'two ranks: messages, reduction and one-sided memory'
mkdir a b
ranks_ 2 "$MUSTER" doctor --directory a --directory b
expect_exit 0
expect_match '^rank +1 '
expect_match '^messages +within a node, ranks 0 and 1: a word in [0-9.e+]+ us, [0-9.]+ GB/s'
expect_match '^reduction +16 MiB by shared memory, 2 ranks: '
expect_match '^one-sided +shared memory: rank 1 on .* reads a word'
expect_match '^one-sided +MPI windows: rank 1 on .* reads a word'
expect_match '^directory +a: '
expect_match '^directory +b: '

case_ 'four ranks as on two nodes: the links between nodes'
export MUSTER_FAKE_NODE_SIZE=2
ranks_ 4 "$MUSTER" doctor
unset MUSTER_FAKE_NODE_SIZE
expect_match '^messages +within a node, ranks 0 and 1: '
expect_match '^messages +between nodes, ranks 0 and 2: '
expect_match '^reduction +16 MiB by shared memory, 2 ranks: '
expect_match '^reduction +16 MiB by .*4 ranks'

case_ 'more ranks than cores: what stops a run there has code 4'
core=$(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//')
run_ taskset -c "$core" mpirun -n 2 "$MUSTER" doctor
expect_exit 4
expect_match '^wrong .*they would fight for the cores'

case_ 'a directory that cannot be written to: code 4, and the mend'
run_ "$MUSTER" doctor --directory nowhere
expect_exit 4
expect_contains 'nothing can be written to nowhere: No such file or directory'
expect_contains 'mend     set run.directory'

case_ 'ranks that the launcher started one by one'
export SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3
run_ "$MUSTER" doctor
unset SLURM_STEP_ID SLURM_PROCID SLURM_STEP_NUM_TASKS
expect_exit 4
expect_contains 'SLURM_STEP_NUM_TASKS=3'
finish
