#!/usr/bin/env bash
# Makes the files of a release, and checks them. See --help.
set -euo pipefail
called_from=$PWD
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: deploy/release.sh [--draft] [--no-check] [--output DIR] [--build DIR] [--no-install] [--jobs N]

Makes all files of a release from the commit that is checked out, for the version in CMakeLists.txt:
  Debian packages   deploy/package.sh
  tarball           deploy/package.sh --portable
  wheel             deploy/wheel.sh
  SHA256SUMS        of all of them
Then installs the same files on bare systems, compiles a program there and lets it log: the packages on this release of
Debian, the tarball and the wheel on Debian 11 and 13 (tests/portable/systems.sh; needs root, 400 MB of downloads).
The command that sets the tag is printed at the end. Nothing is published.

  --draft       also from a changed tree, and for a version that CHANGELOG.md does not name
  --no-check    do not try the files on bare systems
  --output DIR  directory for the files, which must be empty or absent [build/release-files]
  --build DIR   build tree [build/package]
  --no-install  do not call deploy/install-deps.sh
  --jobs N      compile N files at a time [the number of cores]

It takes 8 to 12 CPU minutes the first time, and the check 10 minutes. Two runs of a commit make the same packages and tarball.

Examples:
  deploy/release.sh                       # before a release, on Debian 12, as root
  deploy/release.sh --draft --no-check    # to look at the files
TEXT
}

. deploy/portable-tree.sh

draft=no
no_check=no
build=$PWD/build/package
output=$PWD/build/release-files
read_arguments "draft no-check" "$@"

[ -z "$(ls -A "$output")" ] || fail "$output is not empty; old files must not get into a release. Take another --output or remove it"
version=$(sed -nE 's/^project\(ranklog VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
[ -n "$version" ] || fail "CMakeLists.txt names no version"
git=(git -c "safe.directory=*")
if [ "$draft" = no ]; then
  changed=$("${git[@]}" status --porcelain) || fail "a release is made from a git checkout; for a trial take --draft"
  [ -z "$changed" ] || fail "the tree has changes that are not committed; commit them, or take --draft for a trial:"$'\n'"$changed"
  grep -qE "^## $version( |\$)" CHANGELOG.md || fail "CHANGELOG.md has no heading '## $version'; write what users get, or take --draft for a trial"
  [ -z "$("${git[@]}" tag --list "v$version")" ] || [ "$("${git[@]}" rev-parse "v$version^{commit}")" = "$("${git[@]}" rev-parse HEAD)" ] ||
    fail "the tag v$version stands at another commit; set a new version in CMakeLists.txt"
fi
# The checks need more than the builds do.
if [ "$no_check" = no ]; then
  [ "$(id -u)" = 0 ] || fail "the check on bare systems needs root; take --no-check to do without"
  [ "$install" = no ] || deploy/install-deps.sh --tests
fi
[ "$install" = no ] || deploy/install-deps.sh --packages

options=(--no-install --build "$build" --output "$output" --jobs "$jobs")
say "Ranklog $version, 1 of 4: Debian packages"
deploy/package.sh "${options[@]}"
say "2 of 4: tarball"
deploy/package.sh --portable "${options[@]}"
say "3 of 4: wheel"
deploy/wheel.sh "${options[@]}"
(cd "$output" && sha256sum -- * >"$build/SHA256SUMS" && mv "$build/SHA256SUMS" .)
if [ "$no_check" = no ]; then
  say "4 of 4: bare systems"
  tests/portable/systems.sh "$output"
else
  say "4 of 4: bare systems: left out"
fi

say "made in $output"
(cd "$output" && du -h -- * && sha256sum --quiet -c SHA256SUMS)
if [ "$draft" = no ]; then
  echo "To release it: git tag -a v$version -m 'Ranklog $version' && git push origin v$version, then publish these files."
else
  echo "This is a draft. Do not publish it."
fi
