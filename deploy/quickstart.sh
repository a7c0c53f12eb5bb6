#!/usr/bin/env bash
# Ranklog from nothing to a loss curve. See --help.
set -euo pipefail
called_from=$PWD
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: deploy/quickstart.sh [--steps N] [--ranks N] [--state-dir DIR] [--keep] [--no-install] [--jobs N]

Installs the packages that Ranklog needs, builds it, starts its own ranklogd, trains a small GPT with 2 ranks on real
text, and shows its loss curve. No data leaves this machine. The first time takes 3 to 8 CPU minutes of compilation, and
the training less than a minute.

  --steps N        optimizer steps [600]
  --ranks N        ranks to train with [2]
  --state-dir DIR  state directory [build/quickstart/state]. It stays, so later runs are added to it
  --keep           leave ranklogd running at the end
  --no-install     do not call deploy/install-deps.sh
  --jobs N         compile N files at a time [the number of cores; less where memory is short]

Example:
  deploy/quickstart.sh --steps 200 --keep
TEXT
}

wrong() { echo "quickstart.sh: $1" >&2; usage >&2; exit 2; }

steps=600
ranks=2
keep=no
install=yes
build=build/quickstart
state=$PWD/$build/state
# With LibTorch's headers, a compiler takes 1.5 GB.
memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
jobs=$(nproc)
[ "$memory" -ge "$jobs" ] || jobs=$((memory > 0 ? memory : 1))
while [ $# -gt 0 ]; do
  case "$1" in
    --steps | --ranks | --state-dir | --jobs)
      [ -n "${2:-}" ] || wrong "$1 needs a value"
      case "$1" in
        --state-dir) state=$(cd "$called_from" && realpath -m -- "$2") ;;
        *)
          [[ $2 =~ ^[1-9][0-9]{0,8}$ ]] || wrong "$1 needs a positive number, not '$2'"
          declare "${1#--}=$2"
          ;;
      esac
      shift
      ;;
    --keep) keep=yes ;;
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "unknown argument '$1'" ;;
  esac
  shift
done

started=$SECONDS
say() { printf '\n== %s (%d:%02d)\n' "$1" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)); }
# quoted WORD...: a command for a terminal.
quoted() { local text; text=$(printf '%q ' "$@"); echo "${text% }"; }
fail() { echo "quickstart.sh: $1" >&2; exit 1; }

[ "$install" = no ] || deploy/install-deps.sh

say "building into $build"
mkdir -p "$build"
# RANKLOG_WERROR=ON: the flags of the tests, so that .ci/run finds most objects in the compiler cache.
launcher=()
! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRANKLOG_TESTS=OFF -DRANKLOG_WERROR="${RANKLOG_WERROR:-OFF}" "${launcher[@]}" >"$build/configure.log" 2>&1 ||
  { tail -n 20 "$build/configure.log" >&2; fail "cmake failed; its output is in $build/configure.log"; }
[ -x "$build/bin/ranklog-train" ] || echo "3 to 8 CPU minutes of compilation the first time, $jobs files at a time; [done/all] counts the steps"
NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "$jobs" bin/ranklogd bin/ranklog bin/ranklog-train
bin=$PWD/$build/bin

# Settings of the user's shell must not affect this run, which stays on this machine.
for name in $(compgen -e); do
  case "$name" in RANKLOG_* | WANDB_* | MLFLOW_* | RANK | LOCAL_RANK | WORLD_SIZE | LOCAL_WORLD_SIZE | GROUP_RANK | TORCHELASTIC_* | MASTER_* | SLURM_* | OMPI_* | PMI_* | PMIX_* | MPI_LOCAL*) unset "$name" ;; esac
done

# The socket's path must be short. So it has its own folder, and so have the spools.
runtime=$(mktemp -d /tmp/ranklog-XXXXXX)
daemon=
stop() {
  local code=$?
  trap - EXIT HUP INT TERM
  if [ -n "$daemon" ] && { [ "$keep" = no ] || [ "$code" -ne 0 ]; }; then
    # Interrupted ranks left rows in their spools. The daemon stores them before the folder is removed.
    for _ in $(seq 50); do
      compgen -G "$runtime/*.spool" >/dev/null && kill -0 "$daemon" 2>/dev/null || break
      sleep 0.1
    done
    kill -TERM "$daemon" 2>/dev/null || true
    local ended=0
    wait "$daemon" 2>/dev/null || ended=$?
    if [ "$ended" != 0 ] && [ "$code" = 0 ]; then
      echo "quickstart.sh: ranklogd ended with code $ended; its log is $log" >&2
      code=1
    fi
    daemon=
  fi
  if [ -z "$daemon" ] && compgen -G "$runtime/*.spool" >/dev/null; then
    echo "quickstart.sh: not all rows reached ranklogd; the rest is in $runtime. To store it, run:" >&2
    echo "  RANKLOG_ADDRESS=$RANKLOG_ADDRESS RANKLOG_SPOOL_DIR=$runtime $(quoted "$bin/ranklog" sync --state-dir "$state")" >&2
    [ "$code" != 0 ] || code=1
  elif [ -z "$daemon" ]; then
    rm -rf "$runtime"
  fi
  exit "$code"
}
trap stop EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

export RANKLOG_STATE_DIR=$state RANKLOG_ADDRESS=unix:$runtime/ranklogd.sock RANKLOG_SPOOL_DIR=$runtime
export RANKLOG_DESTINATIONS=local RANKLOG_START_DAEMON=false RANKLOG_PROJECT=quickstart
mkdir -p "$state"

say "starting ranklogd"
log=$state/ranklogd.log
# A session of its own: Ctrl-C or a closed terminal reaches only this script, which then stops it.
setsid "$bin/ranklogd" --state-dir "$state" --listen "$RANKLOG_ADDRESS" >>"$log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
  [ ! -S "$runtime/ranklogd.sock" ] || break
  kill -0 "$daemon" 2>/dev/null || break
  sleep 0.1
done
[ -S "$runtime/ranklogd.sock" ] || { tail -n 20 "$log" >&2; fail "ranklogd did not start; its log is $log"; }
echo "ranklogd (pid $daemon) keeps the log in $state"

say "training: $ranks ranks, $steps steps"
"$bin/ranklog-train" --nproc-per-node "$ranks" --steps "$steps" --model tiny --data builtin --batch-size 4

say "the log"
# Follows the run to its end: the daemon closes the last steps after the ranks have left.
timeout 60 "$bin/ranklog" tail latest -n 1 --state-dir "$state" >/dev/null || true
"$bin/ranklog" show latest --state-dir "$state"
"$bin/ranklog" verify latest --state-dir "$state"

cat <<TEXT

The log is in $state. What to type next:
  $(quoted "$bin/ranklog" ui --state-dir "$state")
  $(quoted "$bin/ranklog" runs --state-dir "$state")
  $(quoted "$bin/ranklog" export latest --format csv --state-dir "$state")
  $(quoted "$bin/ranklog-train" --help)
  $(quoted "$PWD/deploy/quickstart.sh" --steps 2000)
TEXT
if [ "$keep" = yes ]; then
  echo "ranklogd continues as pid $daemon. To end it:"
  echo "  $(quoted "$bin/ranklog" stop --address "$RANKLOG_ADDRESS") && rm -r $runtime"
  echo "To log to it, and to look at it without --state-dir:"
  echo "  export RANKLOG_ADDRESS=$RANKLOG_ADDRESS RANKLOG_SPOOL_DIR=$RANKLOG_SPOOL_DIR"
fi
say "done"
