#!/usr/bin/env bash
# Builds pipeledger and simulates one step of a scenario.
#   bash scripts/run.sh [SCENARIO [OPTIONS of pipeledger run]]
# Installs what is missing first. The files go to out/<scenario>/.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cd - >/dev/null
scenario=${1:-$root/examples/llama3-70b-tp8-pp8.yaml}
[ $# -eq 0 ] || shift

bash "$root/scripts/setup.sh"
[ -x "$root/build/release/cli/pipeledger" ] || echo "building: some minutes, this first time" >&2
build() { (cd "$root" && cmake --preset release && cmake --build --preset release --target pipeledger); }
if [ -t 2 ]; then
  build >&2
else
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  build >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi

out=$root/out/$(basename "${scenario%.*}")
"$root/build/release/cli/pipeledger" run "$scenario" -o "$out" "$@"
cat <<TEXT

The picture:    $out/step.svg          (any browser)
The timeline:   $out/trace.json.gz     (ui.perfetto.dev, "Open trace file")
Next command:   $root/build/release/cli/pipeledger ledger $scenario
TEXT
