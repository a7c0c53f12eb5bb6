#!/usr/bin/env bash
# The trainer with CUDA and NCCL. See --help.
set -euo pipefail
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tests/gpu_build.sh [--torch SITE_PACKAGES]

Builds the trainer with CUDA and NCCL in build/gpu, with g++ only, against a PyTorch wheel and the CUDA wheels that it requires:
3 GB, downloaded once for all clones (tests/interop/venv.sh). The test then depends on the machine:

  no GPU   --comm nccl reports what is missing, --comm auto trains on the CPU and reports that, and two ranks of this PyTorch's
           torchrun train over Gloo
  GPUs     tests/gpu_trials.py trains over NCCL, and prints its figures and their goals

On each machine, the trainer's tests over Gloo pass.

  --torch SITE_PACKAGES  use the PyTorch in this folder, which also has its CUDA wheels, instead; python3 must be able to import it

JOBS is the number of files to compile at a time (default: the number of cores). Exit code 77: the wheels cannot be installed.
TEXT
}

wrong() { echo "gpu_build.sh: $1" >&2; usage >&2; exit 2; }
fail() { echo "gpu_build.sh: $1" >&2; exit 1; }
say() { printf '== %s (%s)\n' "$1" "$(date +%T)"; }

packages=
while [ $# -gt 0 ]; do
  case "$1" in
    --torch) [ -e "${2:-}/torch/lib/libtorch_cuda.so" ] || wrong "--torch needs a folder with torch/lib/libtorch_cuda.so"; packages=$2; shift ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "unknown argument '$1'" ;;
  esac
  shift
done
jobs=${JOBS:-$(nproc)}
python=python3
if [ -z "$packages" ]; then
  python=$(tests/interop/venv.sh torch-2.15.0-cuda torch==2.15.0 'nvidia-cuda-crt==13.2.*')
  packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
fi

say "build/gpu"
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake --fresh -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release "${launcher[@]}" "-DCMAKE_PREFIX_PATH=$packages/torch/share/cmake" \
  -DRANKLOG_WERROR=ON -DRANKLOG_CUDA=ON -DRANKLOG_SERVICE=OFF -DRANKLOG_BENCHMARKS=OFF >build/gpu.configure.log ||
  { cat build/gpu.configure.log; exit 1; }
grep -E '^-- (LibTorch|with CUDA)' build/gpu.configure.log
ninja -j "$jobs" -C build/gpu trainer_test
train=$PWD/build/gpu/bin/ranklog-train
[[ $(ldd "$train") == *"$packages/torch/lib/libtorch_cuda.so"* ]] || fail "$train is not linked with libtorch_cuda.so"
[[ $(nm -C -u "$train") == *c10d::ProcessGroupNCCL::ProcessGroupNCCL* ]] || fail "$train does not use ProcessGroupNCCL"

work=$(mktemp -d "${TMPDIR:-/tmp}/ranklog-gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
export RANKLOG_START_DAEMON=false RANKLOG_ADDRESS=unix:$work/none.sock RANKLOG_SPOOL_DIR=$work RANKLOG_FINISH_TIMEOUT_MS=0
short=(--seq-len 64 --batch-size 4 --val-every 0)

torchrun() { PYTHONPATH=$packages "$python" -m torch.distributed.run --standalone --no-python "$@"; }

tests_over_gloo() {
  say "tests over Gloo"
  CUDA_VISIBLE_DEVICES="" ctest --test-dir build/gpu -L '^trainer$' -j $((2 * jobs)) --output-on-failure --no-tests=error
}

gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
if [ "$gpus" = 0 ]; then
  say "no GPU: what is missing"
  code=0
  "$train" --comm nccl "${short[@]}" --steps 1 >"$work/nccl" 2>&1 || code=$?
  cat "$work/nccl"
  [ "$code" = 1 ] || fail "--comm nccl ended with $code instead of 1"
  grep -q -e '--comm nccl: .*NVIDIA.*--comm gloo' "$work/nccl" || fail "--comm nccl does not report what is missing"
  "$train" --comm auto "${short[@]}" --steps 2 --nproc-per-node 2 >"$work/auto" 2>&1 || { cat "$work/auto"; fail "--comm auto failed"; }
  cat "$work/auto"
  grep -q 'on the CPU over Gloo.*NVIDIA' "$work/auto" || fail "--comm auto does not report that it uses the CPU"
  say "no GPU: two ranks of torchrun over Gloo"
  torchrun --nproc-per-node 2 "$train" --comm gloo "${short[@]}" --steps 3 >"$work/gloo" 2>&1 || { cat "$work/gloo"; fail "torchrun failed"; }
  cat "$work/gloo"
  grep -q 'step 3/3' "$work/gloo" || fail "the ranks of torchrun did not take three steps"
  tests_over_gloo
  exit
fi

say "$gpus GPUs: training over NCCL"
service=()  # build/gpu has no service
[ ! -x build/release/bin/ranklogd ] || service=(--service build/release/bin)
PYTHONPATH=$packages "$python" tests/gpu_trials.py build/gpu "${service[@]}"
tests_over_gloo
