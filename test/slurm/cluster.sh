#!/usr/bin/env bash
# A real Slurm on one machine, for tests: one controller and several nodes, each with a name, shared memory and temporary
# files of its own. All of it lies in namespaces, that of the processes too: whatever the cluster started ends with the
# script, however that ends. Nothing outside them is touched, and no rights are needed where users may make namespaces.
#
#   source cluster.sh          first thing in a script: goes on inside
#   cluster_up 4               nodes n1 ... n4 with two CPUs each; srun, sbatch, scontrol, ... work from then on
#   job_state JOB; job_code JOB   RUNNING, COMPLETED, ...; the exit code of its script
if [ -z "${INSIDE_CLUSTER:-}" ]; then
  export INSIDE_CLUSTER=1
  exec unshare --user --map-root-user --net --mount --uts --ipc --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi

cluster_up() {
  cluster=$PWD/cluster
  mkdir -p "$cluster"/{state,log} "$cluster/munge" && chmod 700 "$cluster/munge" || return 1
  # an address besides the loopback's: without one, Slurm takes the host for one without a network
  ip link set lo up && ip link add net0 type bridge && ip addr add 10.99.1.1/24 dev net0 && ip link set net0 up || return 1
  hostname head || return 1
  mount -t tmpfs tmpfs /run || return 1
  printf '127.0.0.1 localhost head\n' >"$cluster/hosts"
  _write_configs "$1"
  mount --bind "$cluster/hosts" /etc/hosts || return 1
  head -c 128 /dev/urandom >"$cluster/munge/key" && chmod 400 "$cluster/munge/key"
  _allow_groups || return 1
  # --force: its folders are not the packaged ones
  munged --force --key-file="$cluster/munge/key" --socket="$cluster/munge/socket" --pid-file="$cluster/munge/pid" \
    --log-file="$cluster/log/munged.log" --seed-file="$cluster/munge/seed" --num-threads=2 2>"$cluster/log/munged.err" || return 1
  LD_PRELOAD=$cluster/groups.so slurmctld -i -f "$SLURM_CONF" || return 1
  local i
  for i in $(seq "$1"); do _start_node "n$i" || return 1; done
  for _ in $(seq 200); do
    [ "$(sinfo --noheader --Node --states=idle --format=%N 2>/dev/null | wc -l)" -ge "$1" ] && return
    sleep 0.1
  done
  echo "no $1 nodes are ready:" && sinfo && tail -n 5 "$cluster"/log/*.log
  return 1
}

# Where one user is all there is, the kernel lets nobody change groups; the daemons insist on it.
_allow_groups() {
  echo 'extern "C" { int setgroups(unsigned long, const unsigned*) { return 0; } int initgroups(const char*, unsigned) { return 0; } }' |
    ${CXX:-g++} -shared -fPIC -x c++ - -o "$cluster/groups.so"
}

# MPI names its shared memory by the host, its plug-in for Slurm its folder below /tmp by the job: two nodes with the
# same of either would meet.
_start_node() {
  mkdir -p "$cluster/spool/$1" "$cluster/tmp/$1"
  # shellcheck disable=SC2016
  unshare --uts --ipc --mount sh -c 'hostname "$0"; mount -t tmpfs tmpfs /dev/shm; LD_PRELOAD=$1 exec slurmd -N "$0" -f "$SLURM_CONF"' "$1" "$cluster/groups.so"
}

_write_configs() {
  export SLURM_CONF=$cluster/slurm.conf
  export OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo
  echo 'CgroupAutomount=no' >"$cluster/cgroup.conf"
  cat >"$SLURM_CONF" <<EOC
ClusterName=test
SlurmctldHost=head(127.0.0.1)
SlurmctldPort=17000
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$cluster/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool/%n
TmpFS=$cluster/tmp/%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.%n.pid
SlurmctldLogFile=$cluster/log/slurmctld.log
SlurmdLogFile=$cluster/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,batch_sched_delay=1,sched_interval=2
ReturnToService=2
SlurmctldTimeout=60
SlurmdTimeout=60
InactiveLimit=0
MinJobAge=600
KillWait=20
WaitTime=0
JobRequeue=1
SrunPortRange=17200-17400
NodeName=DEFAULT CPUs=2 RealMemory=2000 State=UNKNOWN
EOC
  local i
  for i in $(seq "$1"); do
    echo "NodeName=n$i NodeHostname=head NodeAddr=127.0.0.1 Port=$((17000 + i))" >>"$SLURM_CONF"
    echo "127.0.0.1 n$i" >>"$cluster/hosts"
  done
  echo 'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP' >>"$SLURM_CONF"
}

_job_field() { scontrol show job "$1" --oneliner | grep -oE "(^| )$2=[^ ]*" | head -n 1 | sed "s/.*=//"; }
job_state() { _job_field "$1" JobState; }
job_code() { _job_field "$1" ExitCode | sed 's/:.*//'; }
