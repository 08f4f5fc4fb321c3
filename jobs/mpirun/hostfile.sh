#!/usr/bin/env bash
# Trains on the hosts of a file, without a batch system: lines "HOST slots=N", N ranks there; mpirun reaches them by ssh.
#   jobs/mpirun/hostfile.sh HOSTFILE [mpirun flags...] -- CONFIG [muster flags...]
# The build, the config, the data and the run lie at the same paths on all hosts. Where hosts have several networks, name
# the one to use: --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0. A run that has checkpoints goes on from
# them. Ctrl-C, TERM, HUP and USR1 save: exit code 75. Build: as muster-run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
hosts=$1
shift
[ -r "$hosts" ] || { echo "hostfile.sh: $hosts cannot be read; expected a file of lines 'HOST slots=N'" >&2; exit 2; }
flags=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do flags+=("$1"); shift; done
[ $# -gt 1 ] || { echo "hostfile.sh: expected -- CONFIG behind the hosts and mpirun's flags" >&2; exit 2; }
shift
ranks=$(sed 's/#.*//' "$hosts" | awk 'NF { n = 1; for (i = 2; i <= NF; ++i) if (sub(/^slots=/, "", $i)) n = $i; sum += n } END { print sum + 0 }')
[ "$ranks" -gt 0 ] || { echo "hostfile.sh: $hosts names no host; expected lines 'HOST slots=N'" >&2; exit 2; }
exec "$here/muster-run" -n "$ranks" --hostfile "$hosts" --bind-to none ${flags[@]+"${flags[@]}"} -- train "$@" --continue
