# shellcheck shell=bash
# What the sbatch scripts beside it share; they source it.
#   $muster            the executable: $MUSTER, else build/muster below the folder of sbatch
#   launch COMMAND...  runs it and returns its exit code. USR1 is passed on: muster saves and ends with code 75. So it does
#                      at TERM (scancel, requeue, preemption), which Slurm itself sends to the tasks of srun. When the time
#                      limit is reached there is no more saving: that happens before, at $SLURM_JOB_END_TIME.
#   $is_terminated     1 after a TERM
set -u
# shellcheck disable=SC2034 # read by the scripts
muster=${MUSTER:-$SLURM_SUBMIT_DIR/build/muster}
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
# shellcheck disable=SC2034
is_terminated=0 launcher=''

# job_field NAME: what Slurm says of this very job; the id of one task of an array may stand for the whole of it
job_field() {
  local job=$SLURM_JOB_ID
  [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  scontrol show job "$job" --oneliner 2>/dev/null | sed -n "s/.* $1=\([^ ]*\).*/\1/p" | head -n 1
}

# Slurm before 23.02 does not say by itself when the job ends; a job without a limit has no such time.
if [ -z "${SLURM_JOB_END_TIME:-}" ]; then
  _end=$(job_field EndTime)
  if [ -n "$_end" ] && _end=$(date -d "$_end" +%s 2>/dev/null); then export SLURM_JOB_END_TIME=$_end; fi
fi

_pass_on() {
  is_signalled=1
  [ -n "$launcher" ] && kill -USR1 "$launcher" 2>/dev/null
}

launch() {
  local code
  trap _pass_on USR1
  trap 'is_signalled=1 is_terminated=1' TERM
  "$@" </dev/null &
  launcher=$!
  is_signalled=1 # a signal ends a wait, not the launcher
  while [ $is_signalled -eq 1 ]; do
    is_signalled=0
    wait $launcher
    code=$?
  done
  return $code
}
