#!/usr/bin/env bash
# Runs every benchmark of a build and prints a table of the figures that have a goal. See tests/run.sh --bench.
set -euo pipefail
build=$(realpath "${1:?usage: tests/benchmarks/run.sh BUILD_DIR}")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
results=$build/benchmarks/results
mkdir -p "$results"
cd "$results"
for program in "$build"/benchmarks/*_benchmark; do
  name=$(basename "$program")
  echo "== $name" >&2
  "$program" --benchmark_out="$name.json" --benchmark_out_format=json "${@:2}" >&2
done
python3 "$here/table.py" ./*.json
