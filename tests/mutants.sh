#!/usr/bin/env bash
# Which wrong lines would no test see?   tests/mutants.sh [PROGRAM]     all, or those of one test program: cost_tests
#
# tests/mutants/mutants.txt lists mutants, each an expression of the sources and what is put in its place. All of them are
# built into one copy of the tree, each behind a number (`(pipeledger_mutant(7) ? AFTER : BEFORE)`), so that they cost one
# build; then the tests that should see it run once a mutant. A mutant whose tests all pass has survived: it is printed, and
# the script fails unless the list says why it may (`survives:`). It fails as loudly when an expression is not found, or is
# found twice, or when the tests fail without a mutant.
#
# Not in the default tests: it builds what it mutates anew. Takes a few minutes on two cores.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
list=$top/tests/mutants/mutants.txt
work=$top/build/mutants
tree=$work/tree
build=$tree/build/dev
jobs=$(nproc)
only=${1:-}

die() { echo "mutants: $*" >&2; exit 1; }

# ---- the list: paragraphs of `key: text` ----
declare -a why in before after target tests survives
n=0
read_list() {
  local line key text is_open=0
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      '#'*) continue ;;
      '') is_open=0; continue ;;
    esac
    key=${line%%: *} text=${line#*: }
    if [ "$is_open" = 0 ]; then
      n=$((n + 1)) is_open=1
      why[n]='' in[n]='' before[n]='' after[n]='' target[n]='' tests[n]='' survives[n]=''
    fi
    case $key in
      why) why[n]=$text ;;
      in) in[n]=$text ;;
      -) before[n]=$text ;;
      +) after[n]=$text ;;
      target) target[n]=$text ;;
      tests) tests[n]=$text ;;
      survives) survives[n]=$text ;;
      *) die "mutants.txt: $key is no key, in: $line" ;;
    esac
  done < "$list"
}

# ---- the mutated tree ----
make_tree() {
  mkdir -p "$tree"
  # With the files' own times, so that a second run builds little more than what is mutated.
  (cd "$top" && git ls-files -z | tar --null -T - -cf -) | tar -xf - -C "$tree"
  local i file text rest
  local -a found
  for ((i = 1; i <= n; ++i)); do
    found=("${in[i]}")
    [ -f "$tree/${in[i]}" ] ||
      mapfile -t found < <(cd "$tree" && grep -rlF --include='*.cc' -- "${before[i]}" "${in[i]}")
    [ ${#found[@]} = 1 ] || die "'${why[i]}': found in ${#found[@]} files of ${in[i]}: ${before[i]}"
    file=$tree/${found[0]}
    text=$(< "$file")
    rest=${text#*"${before[i]}"}
    [ "$rest" != "$text" ] || die "'${why[i]}': not found in ${found[0]}: ${before[i]}"
    [ "${rest#*"${before[i]}"}" = "$rest" ] || die "'${why[i]}': found twice in ${found[0]}: ${before[i]}"
    text=${text/"${before[i]}"/"(pipeledger_mutant($i) ? (${after[i]}) : (${before[i]}))"}
    [[ $text == *'"tests/mutants/mutant.h"'* ]] || text="#include \"tests/mutants/mutant.h\""$'\n'"$text"
    printf '%s\n' "$text" > "$file"
  done
}

build_tree() {
  (cd "$tree" && cmake --preset dev) > "$work/configure.log" || die "see $work/configure.log"
  # shellcheck disable=SC2046
  ninja -C "$build" -j "$jobs" $(printf '%s\n' "${target[@]}" | sort -u) > "$work/build.log" ||
    { grep -E 'error' -A4 "$work/build.log" | head -40; die "see $work/build.log"; }
}

# Whether all tests of mutant $1 (0: none) pass that $2 names.
pass() {
  PIPELEDGER_MUTANT=$1 ctest --test-dir "$build" -R "$2" -j "$jobs" --timeout 120 --stop-on-failure \
    --no-tests=error > "$work/ctest.log" 2>&1
}

# Leaves those of the program that was asked for.
keep_only() {
  local i kept=0
  for ((i = 1; i <= n; ++i)); do
    [ "${target[i]}" = "$only" ] || continue
    kept=$((kept + 1))
    why[kept]=${why[i]} in[kept]=${in[i]} before[kept]=${before[i]} after[kept]=${after[i]}
    target[kept]=${target[i]} tests[kept]=${tests[i]} survives[kept]=${survives[i]}
  done
  for ((i = kept + 1; i <= n; ++i)); do unset "target[$i]" "tests[$i]"; done
  n=$kept
}

read_list
[ -z "$only" ] || keep_only
[ "$n" -gt 0 ] || die "no mutants in $list"
make_tree
build_tree

baseline=$(printf '%s\n' "${tests[@]}" | sort -u | paste -sd'|')
pass 0 "$baseline" || { tail -20 "$work/ctest.log"; die "the tests fail without a mutant"; }

killed=0 explained=0 bad=0
for ((i = 1; i <= n; ++i)); do
  if pass "$i" "${tests[i]}"; then
    if [ -n "${survives[i]}" ]; then
      explained=$((explained + 1)); echo "survives, as explained: ${why[i]} (${survives[i]})"
    else
      bad=$((bad + 1)); echo "SURVIVES: ${why[i]}: ${in[i]}: ${before[i]} -> ${after[i]}"
    fi
  elif [ -n "${survives[i]}" ]; then
    bad=$((bad + 1)); echo "DIES, though it is said to survive: ${why[i]}"
  else
    killed=$((killed + 1))
  fi
done
echo "$n mutants: $killed killed, $explained survive and are explained, $bad unexplained"
[ "$bad" = 0 ]
