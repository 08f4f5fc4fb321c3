#!/usr/bin/env bash
# What must not stand in the tree: marks of unfinished work, tests that do not run, stray top-level entries, files that
# do not say what they are for.
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0

complain() { # TEXT LINES
  if [ -n "$2" ]; then printf '%s\n%s\n' "$1" "$2"; status=1; fi
}

mark='TO''DO|FIX''ME|XX''X\b|HA''CK'
complain 'unfinished work:' "$(grep -rnIE "\b($mark)\b" Makefile src include jobs test configs .ci 2>/dev/null)"
skip='GTEST_''SKIP|DISABLED''_'
complain 'tests that do not run:' "$(grep -rnIE "$skip" test --include='*.cpp' --include='*.hpp')"

if git rev-parse --git-dir >/dev/null 2>&1; then
  complain 'top-level entries beyond the agreed ones:' \
    "$(git ls-files | cut -d/ -f1 | sort -u | grep -vxE 'Makefile|src|include|jobs|configs|data|test|README\.md|LICENSE|\..*')"
fi

# A source whose header says it need not say it again.
opening=$(find include src test -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' | sort | while read -r file; do
  stem=${file%.*}
  head -n 1 "$file" | grep -q '^//' && continue
  case $file in *.hpp) ;; *) [ -f "$stem.hpp" ] || [ -f "include/muster/${stem#src/}.hpp" ] && continue ;; esac
  echo "$file"
done)
complain 'files that do not open with what they are for:' "$opening"
exit $status
