#!/usr/bin/env bash
# Prints where the aims are exceeded: a file of 400 lines, a function of 60, one conditional per 1000 lines. A place to
# look, not a verdict: always succeeds.
set -u
cd "$(dirname "$0")/../.." || exit 1
mapfile -t files < <(find include src test -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' | sort)

awk '
  FNR == 1 { finish(); file = FILENAME; start = 0 }
  { last = FNR; ++total }
  /^ *# *(if|ifdef|ifndef|elif)/ { ++conditionals }
  # A function at namespace level: from its first line at the margin to the brace at the margin.
  /^[A-Za-z_\[]/ && !/^(namespace|class|struct|enum|union|using|extern|static_assert)/ && !start { start = FNR; name = $0 }
  /; *(\/\/.*)?$/ && start && /^[^ ]/ { start = 0 }
  /^}/ {
    if (start && FNR - start + 1 > 60) printf "  %s:%d: %d lines: %s\n", file, start, FNR - start + 1, name
    start = 0
  }
  function finish() { if (file != "" && last > 400) printf "  %s: %d lines\n", file, last }
  END {
    finish()
    printf "  %d lines, %.1f conditionals per 1000\n", total, 1000 * conditionals / total
  }' "${files[@]}"

for module in src/*/; do
  module=$(basename "$module")
  [ "$module" = cli ] || ls test/unit/"$module"/*.cpp >/dev/null 2>&1 || echo "  $module has no unit test"
done
exit 0
