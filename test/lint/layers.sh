#!/usr/bin/env bash
# Holds every #include against src/LAYERS: between modules, of private headers, and of third-party headers.
set -u
cd "$(dirname "$0")/../.." || exit 1

find include/muster src -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | sort | xargs grep -HnE '^ *#include *[<"]' |
  awk '
    function say(text) { printf "%s:%s: %s\n", file, line, text; bad = 1 }
    FILENAME == "src/LAYERS" && /^!/ {
      split($0, halves, " = ")
      pattern = halves[1]; sub(/^! */, "", pattern); gsub(/ +$/, "", pattern)
      patterns[++pattern_count] = pattern; homes[pattern_count] = halves[2]; next
    }
    FILENAME == "src/LAYERS" && /^[a-z]+:/ {
      module = $1; sub(/:$/, "", module); is_known[module] = 1
      for (i = 2; i <= NF; ++i) allowed[module, $i] = 1
      next
    }
    FILENAME == "src/LAYERS" { next }
    {
      split($0, place, ":"); file = place[1]; line = place[2]
      target = $0; sub(/^[^<"]*[<"]/, "", target); sub(/[>"].*/, "", target)
      is_quoted = $0 ~ /#include *"/
      own = file; sub(/^(include\/muster|src)\//, "", own); sub(/\/.*/, "", own)
      if (!(own in is_known)) { say("module " own " is not in src/LAYERS"); next }
      name = target; is_public = sub(/^muster\//, "", name)
      module = name; sub(/\/.*/, "", module)
      header = name; sub(/\.hpp$/, "", header)
      if (is_public && !is_quoted) {
        ++seen
        if (!(module in is_known)) say("includes " target ", a module that src/LAYERS does not know")
        else if (module != own && !allowed[own, module] && !allowed[own, header]) say(own " may not include " target)
      } else if (is_quoted) {
        if (is_public) say("write <" target ">")
        else if (file ~ /^include\//) say("a public header includes the private " target)
        else if (module != own) say("includes " target ", a private header of " module)
      } else {
        for (i = 1; i <= pattern_count; ++i) {
          if (target !~ patterns[i]) continue
          is_home = 0; count = split(homes[i], home, " ")
          for (h = 1; h <= count; ++h) if (file == home[h] || index(file, home[h] "/") == 1) is_home = 1
          if (!is_home) { say(target " belongs to " homes[i] " alone"); break }
          break
        }
      }
    }
    END {
      if (seen == 0) { print "no include between modules was seen: the check itself is broken"; bad = 1 }
      exit bad
    }' src/LAYERS -
