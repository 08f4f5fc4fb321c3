#!/usr/bin/env bash
# Runs every other script of this folder and says which passed. `make lint` also compiles each header alone.
set -u
cd "$(dirname "$0")" || exit 1
failed=()
for script in *.sh; do
  [ "$script" = lint.sh ] && continue
  name=${script%.sh}
  if text=$(bash "$script" 2>&1); then
    echo "ok $name"
  else
    echo "not ok $name"
    failed+=("$name")
  fi
  if [ -n "$text" ]; then printf '%s\n' "$text" | sed 's/^/    /'; fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "lint failed: ${failed[*]}"
  exit 1
fi
echo 'lint passed'
