#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while. See --help.
set -euo pipefail
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
Usage: tests/fuzz/run.sh [SECONDS] [TARGET...]

Runs the fuzz targets (or the named ones) side by side for SECONDS (30), and prints how often each was executed. The corpus in
build/fuzz/corpus grows. An input that breaks a promise is kept as build/fuzz/artifacts/TARGET-*. To run it again:
  build/fuzz/fuzz/TARGET_fuzz build/fuzz/artifacts/TARGET-...
TEXT
}

case "${1:-}" in -h | --help) usage; exit 0 ;; esac
seconds=${1:-30}
wrong() { echo "fuzz/run.sh: $1" >&2; usage >&2; exit 2; }
[[ $seconds =~ ^[1-9][0-9]*$ ]] || wrong "SECONDS must be a positive number, not '$seconds'"
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
for target in "${targets[@]}"; do
  [ -f "tests/fuzz/${target}_fuzz.cc" ] || wrong "no target '$target' (there is no tests/fuzz/${target}_fuzz.cc)"
done

out=build/fuzz
mkdir -p build
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake --fresh -S . -B $out -G Ninja -DRANKLOG_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DRANKLOG_WERROR=ON -DRANKLOG_TRAINER=OFF -DRANKLOG_BENCHMARKS=OFF \
  "${launcher[@]}" >$out.configure.log 2>&1 || { cat $out.configure.log; exit 1; }
NINJA_STATUS='[%f/%t] ' ninja -j "${JOBS:-$(nproc)}" -C $out fuzz

mkdir -p $out/artifacts $out/logs
$out/fuzz/fuzz_seeds $out/seeds
# UBSan's reports must stop a target. An allocation that is too large must fail, not end the process, as in a daemon.
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1 HOME=/nonexistent
unset RANKLOG_ADDRESS RANKLOG_STATE_DIR RANKLOG_SPOOL_DIR RANKLOG_TRANSMIT_INTERVAL XDG_STATE_HOME XDG_RUNTIME_DIR

fuzz() {
  local target=$1 seconds=$2 out=$3 seeds=()
  mkdir -p "$out/corpus/$target"
  for dir in "tests/fuzz/corpus/$target" "$out/seeds/$target"; do [ ! -d "$dir" ] || seeds+=("$dir"); done
  "$out/fuzz/${target}_fuzz" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=10 -max_len=8192 -print_final_stats=1 \
    -artifact_prefix="$out/artifacts/$target-" "$out/corpus/$target" "${seeds[@]}" >"$out/logs/$target" 2>&1 ||
    { echo "ended with code $?" >>"$out/logs/$target"; return 1; }
}
export -f fuzz
failed=0
printf '%s\n' "${targets[@]}" | xargs -P 0 -I{} bash -c 'fuzz "$@"' _ {} "$seconds" "$out" || failed=1

complaints=()
printf '%-12s %12s %10s %8s  %s\n' target executions per_second corpus result
for target in "${targets[@]}"; do
  log=$out/logs/$target
  figure() { sed -n "s/^stat::$1: *//p" "$log"; }
  result=ok
  # Leaks are detected after "Done".
  { grep -q '^Done ' "$log" && ! grep -q '^ended with code' "$log"; } || { result=FAILED; failed=1; }
  printf '%-12s %12s %10s %8s  %s\n' "$target" "$(figure number_of_executed_units)" \
    "$(figure average_exec_per_sec)" "$(find "$out/corpus/$target" -type f | wc -l)" "$result"
  [ $result = ok ] || complaints+=("$log")
done
for log in "${complaints[@]}"; do
  printf '\n== %s: the input is %s\n' "$log" "$(sed -n 's/.*Test unit written to //p' "$log")"
  # The broken promise, its place, and the input in base64, without the search before it.
  grep -v -E '^(#|INFO:|"|stat::|0x)' "$log" | tail -n 60 | cut -c 1-2000
done
exit $failed
