#!/usr/bin/env bash
# The whole process, files written: bash bench/process.sh [SCENARIO]. Needs hyperfine (Debian: hyperfine).
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=${1:-examples/llama3-70b-tp8-pp8.yaml}
command -v hyperfine >/dev/null || { echo "process.sh: install hyperfine" >&2; exit 1; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
hyperfine -N --warmup 3 "build/release/cli/pipeledger run $scenario -o $out" --export-markdown "$out.md" >/dev/null
cat "$out.md"
rm -f "$out.md"
du -sb "$out" | awk '{printf "written: %.2f MB\n", $1 / 1e6}'
