#!/usr/bin/env bash
# Trains on this machine, its cores shared evenly by the ranks.
#   [RANKS=2] jobs/mpirun/workstation.sh CONFIG [muster flags...]
# A run that has checkpoints goes on from them. Ctrl-C, TERM, HUP and USR1 save: exit code 75. Build: as muster-run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
flags=(--bind-to none)
# mpirun starts no more ranks than it counts cores, unless told to
if [ "${RANKS:-2}" -gt "$(nproc)" ]; then flags+=(--oversubscribe --mca mpi_yield_when_idle 1); fi
exec "$here/muster-run" -n "${RANKS:-2}" "${flags[@]}" -- train "$@" --continue
