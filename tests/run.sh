#!/usr/bin/env bash
# Builds Ranklog and runs its tests. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [--fast | --bench | --soak MINUTES | --fuzz SECONDS] [--no-install] [--jobs N]

Installs what the tests need, builds, runs the static checks, the tests, and the sanitizer builds. The last line of a
whole run is ctest's summary of the plain build.

  --fast        the plain build and its tests only
  --bench       build and run the benchmarks, and print a table with ratios
  --soak M      run the simulation of tests/simulation for M minutes on each core, with seeds that were not run before
  --fuzz S      run each fuzz target for S seconds (tests/fuzz/README.md); a whole run gives each 30 s
  --no-install  do not call deploy/install-deps.sh
  --jobs N      compile N files at a time (default: the number of cores)

Builds lie in build/: release, address, thread, clang, fuzz. Figures and logs of the last run: build/*/Testing.

Examples:
  tests/run.sh --fast
  CI=true tests/run.sh      # a referee that is absent (the W&B SDK, say) is then a failure, not a skip
TEXT
}

mode=all
install=yes
jobs=$(nproc)
while [ $# -gt 0 ]; do
  case "$1" in
    --fast) mode=fast ;;
    --bench) mode=bench ;;
    --soak) mode=soak; minutes=${2:?--soak wants minutes}; shift ;;
    --fuzz) mode=fuzz; seconds=${2:?--fuzz wants a number of seconds}; shift ;;
    --no-install) install=no ;;
    --jobs) jobs=${2:?--jobs wants a number}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

say() { printf '\n== %s (%s)\n' "$1" "$(date +%T)"; }

# build NAME [cmake options] [-- targets]: configures and builds build/NAME.
build() {
  local name=$1 targets=(); shift
  for ((i = 1; i <= $#; ++i)); do
    if [ "${!i}" = -- ]; then targets=("${@:i+1}"); set -- "${@:1:i-1}"; fi
  done
  say "build/$name: building"
  cmake -S . -B "build/$name" -G Ninja -DRANKLOG_WERROR=ON -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@" >"build/$name.configure.log" ||
    { cat "build/$name.configure.log"; return 1; }
  ninja -j "$jobs" -C "build/$name" --quiet "${targets[@]}"
}

# run NAME [ctest options]: runs the tests of build/NAME; the summary goes to build/NAME.summary.
run() {
  local name=$1; shift
  say "build/$name: testing"
  ctest --test-dir "build/$name" -j "$jobs" --output-on-failure --no-tests=error "$@" | tee "build/$name.ctest.log"
  grep -E 'tests passed|tests failed' "build/$name.ctest.log" >"build/$name.summary"
}

mkdir -p build
[ "$install" = no ] || deploy/install-deps.sh --tests

case "$mode" in
  bench)
    build release -DCMAKE_BUILD_TYPE=Release
    exec tests/benchmarks/run.sh build/release
    ;;
  soak)
    build release -DCMAKE_BUILD_TYPE=Release -- simulation
    pids=()
    for ((core = 0; core < $(nproc); ++core)); do
      build/release/bin/simulation --minutes "$minutes" --first-seed "$(($(date +%s) * 1000000 + core * 100000))000" &
      pids+=($!)
    done
    failed=0
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    exit "$failed"
    ;;
  fuzz)
    JOBS=$jobs exec tests/fuzz/run.sh "$seconds"
    ;;
  fast)
    build release -DCMAKE_BUILD_TYPE=Release
    run release
    ;;
  all)
    say "checks"
    tests/checks.sh --format
    build release -DCMAKE_BUILD_TYPE=Release
    run release
    build address -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DRANKLOG_SANITIZE=address -DRANKLOG_TRAINER=OFF -DRANKLOG_BENCHMARKS=OFF
    run address -LE interop
    build thread -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DRANKLOG_SANITIZE=thread -DRANKLOG_TRAINER=OFF -DRANKLOG_BENCHMARKS=OFF -- unit_tests guarded_counter
    # The real programs run under AddressSanitizer only: a daemon under ThreadSanitizer is ten times slower.
    run thread -LE 'integration|interop'
    say "clang-tidy"
    tests/checks.sh --clang
    say "fuzz targets"
    JOBS=$jobs tests/fuzz/run.sh 30
    say "done"
    for name in address thread; do echo "build/$name: $(cat build/$name.summary)"; done
    cat build/release.summary
    ;;
esac
