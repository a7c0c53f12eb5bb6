#!/usr/bin/env bash
# Builds Ranklog and runs its tests. See --help.
set -euo pipefail
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [--fast | --bench | --soak MINUTES | --fuzz SECONDS] [--no-install] [--jobs N]

Installs the packages that the tests need, builds, and runs: the static checks, the tests, the tests of the self-contained
library, the trainer's tests with LibTorch 2.x (tests/torch2.sh), the benchmarks in a short form, the tests under sanitizers,
clang-tidy, and the fuzz targets. The last line of a whole run is ctest's summary of the plain build.

  --fast        only the plain build and its tests
  --bench       run the benchmarks; fail if a figure misses its goal in three runs of three (tests/benchmarks/run.py)
  --soak M      run all long trials, those without an end for M minutes each; fail if a figure misses its goal (tests/soak.py)
  --fuzz S      run each fuzz target for S seconds (tests/fuzz/README.md)
  --no-install  do not call deploy/install-deps.sh
  --jobs N      compile N files at a time (default: the number of cores)

A whole run takes 40 to 65 CPU minutes, --fast 16 to 25; a warm compiler cache saves half or more. Ctrl-C is safe: the next run
continues the build where it stopped. The build trees are build/release, portable, address, thread, clang and fuzz. The last
failures are in build/NAME/Testing. tests/README.md describes how to build and run a single test.

Examples:
  tests/run.sh --fast
  tests/run.sh --soak 10
  CI=true tests/run.sh      # a test that lacks a part, such as the W&B SDK, fails instead of being skipped
TEXT
}

wrong() { echo "run.sh: $1" >&2; usage >&2; exit 2; }

# choose MODE: sets the mode of this run; two modes exclude each other.
choose() { [ "$mode" = all ] || [ "$mode" = "$1" ] || wrong "--$1 and --$mode exclude each other"; mode=$1; }

# number OPTION VALUE PATTERN WORDS: refuses a value that is missing or does not match.
number() { [[ $2 =~ ^($3)$ ]] || wrong "$1 needs $4, not '$2'"; }

mode=all
install=yes
jobs=$(nproc)
while [ $# -gt 0 ]; do
  case "$1" in
    --fast) choose fast ;;
    --bench) choose bench ;;
    --soak) choose soak; minutes=${2:-}; number --soak "$minutes" '[1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*' "a positive number of minutes"; shift ;;
    --fuzz) choose fuzz; seconds=${2:-}; number --fuzz "$seconds" '[1-9][0-9]*' "a positive whole number of seconds"; shift ;;
    --no-install) install=no ;;
    --jobs) jobs=${2:-}; number --jobs "$jobs" '[1-9][0-9]*' "a positive number"; shift ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "unknown argument '$1'" ;;
  esac
  shift
done

# say WORDS: a heading, with the CPU time that the ended commands of this shell have taken.
say() {
  local file=build/times.$BASHPID  # not in a pipe: there, `times` would tell of the pipe's own shell
  times >"$file"
  printf '\n== %s (%s, %s)\n' "$1" "$(date +%T)" \
    "$(tr -d s <"$file" | awk -F '[m ]' 'NR == 2 { printf "%.0f CPU s so far", 60 * ($1 + $3) + $2 + $4 }')"
  rm "$file"
}

# build NAME [cmake options] [-- targets]: configures and builds build/NAME. Options of an earlier call do not stay. Programs
# that are no longer built are removed, because all existing benchmarks are run.
build() {
  local name=$1 targets=(); shift
  for ((i = 1; i <= $#; ++i)); do
    if [ "${!i}" = -- ]; then targets=("${@:i+1}"); set -- "${@:1:i-1}"; fi
  done
  say "build/$name: building"
  cmake --fresh -S . -B "build/$name" -G Ninja -DRANKLOG_WERROR=ON "${launcher[@]}" "$@" >"build/$name.configure.log" ||
    { cat "build/$name.configure.log"; return 1; }
  NINJA_STATUS='[%f/%t] ' ninja -j "$jobs" -C "build/$name" "${targets[@]}"
  ninja -C "build/$name" -t cleandead >/dev/null
}

# run NAME [ctest options]: runs the tests of build/NAME; the summary goes to build/NAME.summary.
run() {
  local name=$1; shift
  say "build/$name: testing"
  local code=0
  # Most tests wait for processes and disks more than they compute; those that compute take two places.
  ctest --test-dir "build/$name" -j $((4 * jobs)) --output-on-failure --no-tests=error "$@" | tee "build/$name.ctest.log" || code=$?
  printf '\nThe slowest tests, in seconds; above 20 belongs into the soak:\n'
  sed -nE 's/.*Test +#[0-9]+: ([^ ]+) [ .*]*[A-Z].* ([0-9.]+) sec.*/\2 \1/p' "build/$name.ctest.log" | sort -rn | sed -n 1,20p
  grep -E 'tests passed|tests failed' "build/$name.ctest.log" >"build/$name.summary" || true
  [ "$code" = 0 ] || return "$code"
  # A program that calls exit(0) before or during its tests ends like one that passed.
  local log="build/$name/Testing/Temporary/LastTest.log" partial
  partial=$(awk '/^Command: / { if (test) print test; test = /--gtest_filter=/ ? $0 : "" }
                 /^\[==========\] .* ran\./ { test = "" }
                 END { if (test) print test }' "$log")
  if [ -n "$partial" ]; then
    echo "run.sh: these test programs did not complete; see $log:" >&2
    echo "$partial" >&2
    return 1
  fi
  if [ -n "${CI:-}" ] && grep -n -E '^\[  SKIPPED \]|\*\*\*(Skipped|Not Run)' "$log" "build/$name.ctest.log"; then
    echo "run.sh: with CI set no test may be skipped" >&2
    return 1
  fi
}

release() { build release -DCMAKE_BUILD_TYPE=Release "$@"; }

# sanitize NAME COMPILER [-- targets]: a sanitizer's build, a folder at a time, which also finds a name that two of its
# sources have.
sanitize() {
  local name=$1 compiler=$2; shift 2
  build "$name" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DRANKLOG_SANITIZE="$name" \
    -DCMAKE_CXX_COMPILER="$compiler" -DRANKLOG_BATCH=0 -DRANKLOG_TRAINER=OFF -DRANKLOG_BENCHMARKS=OFF "$@"
}

# GTEST_FILTER and the like would leave tests out.
unset "${!GTEST_@}"
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs  # for deploy/portable-deps.sh
mkdir -p build
[ "$install" = no ] || deploy/install-deps.sh --tests
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

case "$mode" in
  bench)
    release
    exec tests/benchmarks/run.py build/release
    ;;
  soak)
    release
    exec tests/soak.py build/release "$minutes"
    ;;
  fuzz)
    JOBS=$jobs exec tests/fuzz/run.sh "$seconds"
    ;;
  fast)
    release
    run release
    ;;
  all)
    rm -f build/*.summary
    say "checks"
    tests/checks.sh --format
    release
    run release
    # Compiled with the flags of build/release, so that the compiler cache has most objects. The packages are made from it too.
    build portable -DCMAKE_BUILD_TYPE=Release -DRANKLOG_PORTABLE=ON -DRANKLOG_BENCHMARKS=OFF -- portable_tests
    # Beside each other and beside the next builds, because the tests of the packages and the benchmarks wait most of their
    # time: for a container, and for processes that start.
    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
    run portable -L portable >build/portable.run.log 2>&1 & portable=$!
    tests/benchmarks/run.py --short build/release >build/benchmarks.run.log 2>&1 & benchmarks=$!
    say "the trainer with LibTorch 2.x"
    code=0
    JOBS=$jobs tests/torch2.sh --build-only || code=$?
    if [ "$code" = 0 ]; then
      run torch2 -L '^trainer$' -j $((2 * jobs))  # each test starts several ranks that compute
    elif [ "$code" = 77 ] && [ -z "${CI:-}" ]; then
      echo "run.sh: without a package index, the trainer is not tested with LibTorch 2.x"
    else
      exit "$code"
    fi
    # Clang compiles for AddressSanitizer in two thirds of GCC's CPU time; for ThreadSanitizer they take about the same.
    sanitize address clang++
    # The real programs run under AddressSanitizer only: a daemon under ThreadSanitizer is ten times slower.
    sanitize thread g++ -- unit_tests guarded_counter
    code=0
    wait "$portable" || code=$?
    cat build/portable.run.log
    say "benchmarks, in a short form"
    wait "$benchmarks" || code=$?
    cat build/benchmarks.run.log
    [ "$code" = 0 ] || exit "$code"
    # Beside each other: half of the threads' tests wait.
    run thread >build/thread.run.log 2>&1 & thread=$!
    run address || code=$?
    wait "$thread" || code=$?
    cat build/thread.run.log
    [ "$code" = 0 ] || exit "$code"
    say "clang-tidy"
    tests/checks.sh --clang
    say "fuzz targets"
    JOBS=$jobs tests/fuzz/run.sh 10
    say "done"
    for name in portable torch2 address thread; do [ ! -e "build/$name.summary" ] || echo "build/$name: $(cat build/$name.summary)"; done
    cat build/release.summary
    ;;
esac
