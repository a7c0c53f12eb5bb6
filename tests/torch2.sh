#!/usr/bin/env bash
# The trainer against LibTorch 2.x. See --help.
set -euo pipefail
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tests/torch2.sh [--version 2.15.0] [--build-only] [-- CTEST_OPTION...]

Builds the trainer against the LibTorch of a PyTorch wheel, without CUDA, in build/torch2, and runs its tests over Gloo on the
CPU. The other tests run with Debian's LibTorch 1.13. pip downloads 0.55 GB once, for all clones (tests/interop/venv.sh).

  --version V   another release, from 2.8.0 to 2.15
  --build-only  do not run the tests
  -- ...        options for ctest, for example -R ddp_test

JOBS is the number of files to compile at a time (default: the number of cores). Exit code 77: the wheels cannot be installed.
TEXT
}

wrong() { echo "torch2.sh: $1" >&2; usage >&2; exit 2; }

version=2.15.0
test=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --version) [ $# -ge 2 ] || wrong "--version needs a release"; version=$2; shift ;;
    --build-only) test=no ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    *) wrong "unknown argument '$1'" ;;
  esac
  shift
done
# Even libtorch_cpu links two CUDA libraries.
case "$version" in
  2.15.*) cuda=('nvidia-cuda-runtime==13.2.*' 'nvidia-cuda-cupti==13.2.*') ;;
  2.1[1-4].*) cuda=('nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*') ;;
  2.8.* | 2.9.* | 2.10.*) cuda=('nvidia-cuda-runtime-cu12==12.8.*' 'nvidia-cuda-cupti-cu12==12.8.*') ;;
  *) wrong "--version needs the full number of a release from 2.8.0 to 2.15, such as 2.15.0, not '$version'" ;;
esac
jobs=${JOBS:-$(nproc)}

python=$(tests/interop/venv.sh "torch-$version-cpu" --no-deps "torch==$version" "${cuda[@]}")
torch=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake --fresh -S . -B build/torch2 -G Ninja -DCMAKE_BUILD_TYPE=Release "${launcher[@]}" "-DCMAKE_PREFIX_PATH=$torch/share/cmake" \
  -DRANKLOG_WERROR=ON -DRANKLOG_CUDA=OFF -DRANKLOG_SERVICE=OFF >build/torch2.configure.log ||
  { cat build/torch2.configure.log; exit 1; }
grep '^-- LibTorch' build/torch2.configure.log
ninja -j "$jobs" -C build/torch2 trainer_test
[ "$test" = no ] || ctest --test-dir build/torch2 -L '^trainer$' -j $((2 * jobs)) --output-on-failure --no-tests=error "$@"
