#!/usr/bin/env bash
# Runs every test and counts every case: unit binaries, the rank binary under mpirun at each count, and the scripts that
# drive the executable. The arguments are the binaries that must exist below $BUILD/test. What is missing, runs nothing,
# skips, crashes, passes its wall limit or was built but is not named counts as failed. The last line is
# "N passed, N failed"; exit 1 when any failed.
#   BUILD=folder bash test/run.sh [unit_base ... rank_tests] [-- end2end/name.sh ...]     (no scripts named: all of them)
set -u
source_folder=$(cd "$(dirname "$0")/.." && pwd)
BUILD=$(cd "${BUILD:?the build folder}" && pwd) || exit 1
unit_limit_s=${UNIT_LIMIT_S:-300} ranks_limit_s=${RANKS_LIMIT_S:-300} script_limit_s=${SCRIPT_LIMIT_S:-400}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun_flags=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
# A test sees none of the caller's settings: a filter would pass by running nothing.
for name in $(compgen -e | grep -E '^(GTEST_|MUSTER_|SLURM_)'); do unset "$name"; done
export MUSTER=$BUILD/muster MUSTER_SOURCE=$source_folder MUSTER_BUILD=$BUILD

logs=$BUILD/test/log
rm -rf "$logs" && mkdir -p "$logs" || exit 1
scratch=$(mktemp -d /tmp/muster-test.XXXXXX) || exit 1   # short: MPI's sockets live here, and their paths are limited
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch

passed=0 failed=0
failures=()

report() { # NAME PASSED FAILED SECONDS [WHY]
  passed=$((passed + $2)) failed=$((failed + $3))
  printf '  %-34s %4d passed  %3d failed  %5.1f s%s\n' "$1" "$2" "$3" "$4" "${5:+   $5}"
  if [ "$3" -gt 0 ]; then failures+=("$1${5:+: $5}"); fi
}

seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }'; }

ending() { # EXIT_CODE LIMIT
  case $1 in
    124 | 137) echo "no end within $2 s" ;;
    *) echo "exit code $1" ;;
  esac
}

attribute() { sed -n "s/.*<testsuites.* $2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1; }

# googletest NAME LIMIT COMMAND...: the counts come from the report, or from the output where a crash left no report.
googletest() {
  local name=$1 limit=$2 start code why='' ok=0 bad=0 skipped log report_file
  shift 2
  log=$logs/$name.txt report_file=$logs/$name.xml start=$(date +%s.%N)
  (cd "$scratch" && timeout -k 10 "$limit" "$@" --gtest_output=xml:"$report_file" --gtest_color=no </dev/null >"$log" 2>&1)
  code=$?
  if [ -s "$report_file" ]; then
    bad=$(attribute "$report_file" failures)
    skipped=$(grep -c 'result="skipped"' "$report_file")
    skipped=$((skipped + $(attribute "$report_file" disabled)))
    ok=$(($(attribute "$report_file" tests) - bad - skipped))
    if [ "$skipped" -gt 0 ]; then bad=$((bad + skipped)) why="$skipped skipped or disabled"; fi
  else
    ok=$(grep -c '^\[       OK \]' "$log")
    bad=$(grep -cE '^\[  FAILED  \] .* \([0-9]+ ms\)$' "$log")
  fi
  if [ ! -s "$report_file" ] || { [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; }; then
    bad=$((bad + 1)) why="$(ending "$code" "$limit"), $(last_place "$log")"
  fi
  if [ $((ok + bad)) -eq 0 ]; then bad=1 why='ran no test'; fi
  report "$name" "$ok" "$bad" "$(seconds_since "$start")" "$why"
  if [ "$bad" -gt 0 ]; then show_failures "$log"; fi
}

last_place() {
  if is_complete "$1"; then echo 'after the last test'; else echo "in $(grep -E '^\[ RUN      \]' "$1" | tail -n 1 | cut -c14-)"; fi
}

is_complete() { grep -qE '^\[==========\] .* ran\.' "$1"; }

show_failures() { # what failed; the end of the log where a test did not end
  awk '/^\[ RUN/ { text = "" } { text = text $0 "\n" } /^\[  FAILED  \] .*\([0-9]+ ms\)$/ { printf "%s", text; text = "" }' "$1" |
    head -n 120 | sed 's/^/    | /'
  if ! is_complete "$1"; then tail -n 25 "$1" | sed 's/^/    | /'; fi
}

run_unit() {
  if [ ! -x "$BUILD/test/$1" ]; then report "$1" 0 1 0 'the binary is missing'; return; fi
  googletest "$1" "$unit_limit_s" "$BUILD/test/$1"
}

run_ranks() {
  local binary=$BUILD/test/rank_tests count counts
  if [ ! -x "$binary" ]; then report rank_tests 0 1 0 'the binary is missing'; return; fi
  counts=$(printf '%s\n' 1 2 3 4 "$("$binary" --counts)" | grep -E '^[0-9]+$' | sort -nu)
  for count in $counts; do
    OMP_NUM_THREADS=1 googletest "ranks_$count" "$ranks_limit_s" mpirun "${mpirun_flags[@]}" -n "$count" "$binary"
  done
}

run_script() { # a path below test/
  local name=${1%.sh} log ok bad code why='' start folder
  log=$logs/${name//\//_}.txt folder=$scratch/${name//\//_} start=$(date +%s.%N)
  mkdir -p "$folder"
  (cd "$folder" && timeout -k 10 "$script_limit_s" bash "$source_folder/test/$1" </dev/null >"$log" 2>&1)
  code=$?
  rm -rf "$folder"
  ok=$(grep -c '^ok ' "$log") bad=$(grep -c '^not ok ' "$log")
  if [ "$code" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1 why=$(ending "$code" "$script_limit_s"); fi
  if [ $((ok + bad)) -eq 0 ]; then bad=1 why='ran no case'; fi
  if [ -z "$why" ]; then why=$(sed -n 's/^not ok //p' "$log" | cut -c 1-400 | paste -s -d '|'); fi   # again in the last lines
  report "$name" "$ok" "$bad" "$(seconds_since "$start")" "$why"
  if [ "$bad" -gt 0 ]; then
    grep -A 30 '^not ok ' "$log" | grep -vE '^ok |^--$' | head -n 120 | sed 's/^/    | /'
    if ! grep -q '^not ok ' "$log"; then tail -n 25 "$log" | sed 's/^/    | /'; fi
  fi
}

binaries=() scripts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do binaries+=("$1"); shift; done
if [ $# -gt 0 ]; then
  shift
  scripts=("$@")
else
  for script in "$source_folder"/test/end2end/*.sh "$source_folder"/test/fault/*.sh "$source_folder"/test/slurm/*.sh; do
    case $(basename "$script") in lib.sh | hosts.sh | cluster.sh) continue ;; esac   # these only help the others
    [ -f "$script" ] && scripts+=("${script#"$source_folder"/test/}")
  done
  for built in "$BUILD"/test/unit_* "$BUILD"/test/*_tests; do   # a run of all tests leaves out none that was built
    name=$(basename "$built")
    [ -x "$built" ] && [[ " ${binaries[*]} " != *" $name "* ]] &&
      report "$name" 0 1 0 "built, but not among the tests; delete $built if it is an old one"
  done
fi

for binary in "${binaries[@]}"; do
  if [ "$binary" = rank_tests ]; then run_ranks; else run_unit "$binary"; fi
done
for script in "${scripts[@]}"; do run_script "$script"; done

if [ $((passed + failed)) -eq 0 ]; then report 'all tests' 0 1 0 'nothing ran'; fi
if [ ${#failures[@]} -gt 0 ]; then printf 'failed: %s\n' "${failures[@]}"; echo "logs: $logs"; fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
