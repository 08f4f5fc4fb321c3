#!/usr/bin/env bash
# Shell scripts pass shellcheck.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v shellcheck >/dev/null || { echo 'shellcheck is absent: the scripts were not checked'; exit 0; }
{ find jobs test -name '*.sh'; grep -rlIE '^#!.*\bbash' jobs .ci --exclude='*.sh' --exclude='*.md'; } | sort -u |
  xargs shellcheck --external-sources --source-path=SCRIPTDIR --exclude=SC1091 --severity=warning
