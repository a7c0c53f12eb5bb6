#!/usr/bin/env bash
# The Debian packages that deploy/package.sh makes from a build tree: their files, their dependencies, and lintian's findings.
#   tests/portable/packages.sh BUILD DEBS     also puts the Debian packages into the folder DEBS
set -euo pipefail
build=$(realpath "$1")
debs=$2
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
root=$here/../..

fail() { echo "packages.sh: $1" >&2; exit 1; }
# expect WHAT PATTERN TEXT
expect() { grep -qE -- "$2" <<<"$3" || fail "$1: no match for $2 in: $3"; }

command -v lintian >/dev/null || { echo "absent: lintian"; [ -z "${CI:-}" ] || exit 1; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:[A-Z]+=//p' "$build/CMakeCache.txt")

# ---- Arguments ----

for wrong in --unknown --jobs "--jobs 0" --output; do
  # shellcheck disable=SC2086 # two words
  code=0; "$root/deploy/package.sh" $wrong >"$work/log" 2>&1 || code=$?
  [ "$code" = 2 ] || fail "package.sh $wrong: exit code $code"
done
if "$root/deploy/package.sh" --no-install --output /proc/absent >"$work/log" 2>&1; then fail "package.sh wrote below /proc"; fi
expect "a folder that cannot be written" "cannot write /proc/absent" "$(cat "$work/log")"

# ---- Debian packages ----

"$root/deploy/package.sh" --no-install --build "$build" --output "$work/out" >"$work/log" 2>&1 || { cat "$work/log"; fail "package.sh"; }
for deb in "$work"/out/*.deb; do
  name=$(dpkg-deb -f "$deb" Package)
  dpkg-deb -c "$deb" | awk -v name="$name" '$1 !~ /^d/ { print name, $6 }'
done | sed "s/$version/VERSION/" | LC_ALL=C sort >"$work/files"
diff "$here/packages.txt" "$work/files" || fail "the files of the packages are not those of packages.txt"

field() { dpkg-deb -f "$work/out/$1_${version}_amd64.deb" "$2"; }
names() { sed -E 's/ \([^)]*\)//g; s/, /\n/g' <<<"$1" | LC_ALL=C sort | paste -sd ' '; }
for library in libc6 'libcurl4' 'libgrpc\+\+[0-9.]+' 'libsqlite3-0' 'libspdlog[0-9.]+-fmt[0-9]+' zlib1g; do
  expect "dependencies of ranklog" "(^|, )$library( \(|,|$)" "$(field ranklog Depends)"
done
[ "$(names "$(field libranklog0 Depends)")" = "libc6 libgcc-s1" ] || fail "libranklog0 depends on $(field libranklog0 Depends)"
[ "$(field libranklog-dev Depends)" = "libranklog0 (= $version)" ] || fail "libranklog-dev depends on $(field libranklog-dev Depends)"
expect "dependencies of ranklog-train" "libtorch[0-9.]+" "$(field ranklog-train Depends)"
expect "dependencies of ranklog-train" "libsentencepiece[0-9]+" "$(field ranklog-train Depends)"
expect "dependencies of ranklog-train" "libranklog0 \(= $version\)" "$(field ranklog-train Depends)"
dpkg-deb -e "$work/out/libranklog0_${version}_amd64.deb" "$work/control"
expect "shlibs of libranklog0" "^libranklog 0 libranklog0 \(>= $version\)" "$(cat "$work/control/shlibs")"
dpkg-deb -x "$work/out/ranklog_${version}_amd64.deb" "$work/ranklog"
expect "the unit" "^ExecStart=/usr/bin/ranklogd " "$(cat "$work"/ranklog/{usr/,}lib/systemd/system/ranklogd@.service 2>/dev/null)"

said=$(lintian --allow-root --fail-on none --tag-display-limit 0 "$work"/out/*.deb 2>&1)
[ -z "$said" ] || fail "lintian says:"$'\n'"$said"

mkdir -p "$debs"
rm -f "$debs"/*.deb
cp "$work"/out/*.deb "$debs"
