#!/usr/bin/env bash
# Sources are as .clang-format says (`make format` brings them there).
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v clang-format >/dev/null || { echo 'clang-format is absent: the format was not checked'; exit 0; }
wrong=$(find include src test -name '*.hpp' -o -name '*.cpp' | sort | xargs clang-format --dry-run -Werror 2>&1 | sed -n 's/^\([^: ]*\):.*clang-format-violations.*/\1/p' | sort | uniq -c)
[ -z "$wrong" ] && exit 0
echo 'places to format, per file (make format):'
echo "$wrong"
exit 1
