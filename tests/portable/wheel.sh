#!/usr/bin/env bash
# Tests the wheel that deploy/wheel.sh makes from a build tree: its tag, what is in it, and the README's example in an empty
# virtual environment, without a network.
#   tests/portable/wheel.sh BUILD
set -euo pipefail
build=$(realpath "$1")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
root=$here/../..

fail() { echo "wheel.sh: $1" >&2; exit 1; }
# expect WHAT PATTERN TEXT
expect() { grep -qE -- "$2" <<<"$3" || fail "$1: no match for $2 in: $3"; }

work=$(mktemp -d)
stop() {
  [ ! -e "$work/state/lock" ] || { pid=$(cat "$work/state/lock"); kill "$pid" && tail --pid="$pid" -f /dev/null; } 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT
version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:[A-Z]+=//p' "$build/CMakeCache.txt")

"$root/deploy/wheel.sh" --no-install --build "$build" --output "$work/out" >"$work/log" 2>&1 || { cat "$work/log"; fail "deploy/wheel.sh"; }
wheel=$work/out/ranklog-$version-cp39-abi3-manylinux_2_28_x86_64.whl
[ -e "$wheel" ] || fail "no $(basename "$wheel"), but $(ls "$work/out")"
/usr/bin/python3 -m zipfile -e "$wheel" "$work/content"
package=$work/content/ranklog
for program in ranklogd ranklog; do cmake -DREADELF=readelf -DPROGRAM="$package/bin/$program" -P "$here/symbols.cmake"; done
cmake -DREADELF=readelf -DLIBRARY="$package/libranklog.so.0" -P "$here/symbols.cmake"
for part in grpc openssl protobuf sqlite3; do [ -s "$package/licences/$part" ] || fail "the wheel has no licence of $part"; done
# The module finds the library of the wheel, and no other.
expect "its run path" 'RUNPATH.*\[\$ORIGIN\]' "$(readelf -d "$package/_native.abi3.so")"

# auditwheel judges the tag. It is absent without a package index.
if python=$("$root/tests/interop/venv.sh" auditwheel-6.4.2 auditwheel==6.4.2); then
  expect "auditwheel" 'manylinux_2_(5|12|17|24|27|28)_x86_64' "$("$python" -m auditwheel show "$wheel")"
elif [ $? -ne 77 ]; then
  fail "cannot install auditwheel"
fi

/usr/bin/python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --no-index "$wheel"
mkdir -m 0700 "$work/run"
unset LD_LIBRARY_PATH PYTHONPATH RANKLOG_DAEMON RANKLOG_START_DAEMON WANDB_MODE RANK WORLD_SIZE
export RANKLOG_ADDRESS=unix:$work/run/d.sock RANKLOG_SPOOL_DIR=$work/run RANKLOG_STATE_DIR=$work/state RANKLOG_DESTINATIONS=local RANKLOG_FINISH_TIMEOUT_MS=60000
cd "$work"
"$work/venv/bin/python" "$root/client/example.py"
expect "the daemon" '/site-packages/ranklog/bin/ranklogd$' "$(readlink "/proc/$(cat "$work/state/lock")/exe")"
expect "ranklog runs" "example-python +finished +1000 +999" "$("$work/venv/bin/ranklog" runs)"
for program in ranklogd ranklog; do expect "$program --version" "$program $version" "$("$work/venv/bin/$program" --version)"; done
