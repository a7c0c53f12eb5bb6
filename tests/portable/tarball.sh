#!/usr/bin/env bash
# Tests the tarball that deploy/package.sh --portable makes from a build tree: its symbols, its static parts and their licences.
# Also builds a program with the tarball's files in some folder, and lets it log.
#   tests/portable/tarball.sh BUILD
set -euo pipefail
build=$(realpath "$1")
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
root=$here/../..

fail() { echo "tarball.sh: $1" >&2; exit 1; }
# expect WHAT PATTERN TEXT
expect() { grep -qE -- "$2" <<<"$3" || fail "$1: no match for $2 in: $3"; }

work=$(mktemp -d)
stop() {
  [ ! -e "$work/state/lock" ] || { pid=$(cat "$work/state/lock"); kill "$pid" && tail --pid="$pid" -f /dev/null; } 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT
version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:[A-Z]+=//p' "$build/CMakeCache.txt")

"$root/deploy/package.sh" --portable --no-install --build "$build" --output "$work/out" >"$work/log" 2>&1 || { cat "$work/log"; fail "package.sh --portable"; }
mkdir "$work/prefix"
tar -xf "$work/out/ranklog-$version-linux-x86_64.tar.gz" -C "$work/prefix" --strip-components=1
prefix=$work/prefix
for program in ranklogd ranklog; do
  expect "$program --version" "$program $version" "$("$prefix/bin/$program" --version)"
  cmake -DREADELF=readelf -DPROGRAM="$prefix/bin/$program" -P "$here/symbols.cmake"
done
cmake -DREADELF=readelf -DLIBRARY="$prefix/lib/libranklog.so" -P "$here/symbols.cmake"
for part in abseil c-ares civetweb curl fmtlib grpc openssl prometheus-cpp protobuf re2 spdlog sqlite3 zlib; do
  expect "static-parts" "^$part [0-9]" "$(cat "$prefix/share/doc/ranklog/static-parts")"
  [ -s "$prefix/share/doc/ranklog/licences/$part" ] || fail "the tarball has no licence of $part"
done
[ -s "$prefix/share/doc/ranklog/licences/uplot" ] || fail "the tarball has no licence of uplot"
expect "the unit" "^ExecStart=/usr/local/bin/ranklogd " "$(cat "$prefix/lib/systemd/system/ranklogd@.service")"

# A program that logs to the tarball's daemon, which it finds beside the library.
flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs ranklog)
# shellcheck disable=SC2086 # words
g++ -std=c++17 "$root/client/example.cc" -o "$work/example" $flags -Wl,-rpath,"$prefix/lib"
mkdir -m 0700 "$work/run"
unset LD_LIBRARY_PATH RANKLOG_DAEMON RANKLOG_START_DAEMON WANDB_MODE RANK WORLD_SIZE
export RANKLOG_ADDRESS=unix:$work/run/d.sock RANKLOG_SPOOL_DIR=$work/run RANKLOG_STATE_DIR=$work/state RANKLOG_DESTINATIONS=local RANKLOG_FINISH_TIMEOUT_MS=60000
"$work/example"
[ "$(readlink "/proc/$(cat "$work/state/lock")/exe")" = "$prefix/bin/ranklogd" ] || fail "another daemon than that of the tarball was started"
timeout 60 "$prefix/bin/ranklog" tail latest >/dev/null # goes on until the run has ended
expect "ranklog runs" "example +finished +1000 +999" "$("$prefix/bin/ranklog" runs)"
