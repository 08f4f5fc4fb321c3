#!/usr/bin/env bash
# Turns the King James Bible of Debian's packages bible-kjv and bible-kjv-text into token ids: /train/tokens and, from its
# last tenth, /test/tokens.
#   jobs/data/bible.sh MUSTER OUTPUT [ENCODING]     ENCODING: characters (default) or bytes; nothing is done where OUTPUT is there
set -eu
muster=$1 output=$2 encoding=${3:-characters}
[ -s "$output" ] && exit 0
command -v bible >/dev/null || { echo "bible.sh: the program bible is missing: apt-get install bible-kjv" >&2; exit 1; }
mkdir -p "$(dirname "$output")"
text=$output.txt
trap 'rm -f "$text"' EXIT
bible -l1000 gen1:1-rev22:21 </dev/null >"$text"
"$muster" convert text --encoding "$encoding" --test-share 0.1 --input "$text" --output "$output"
