#!/usr/bin/env bash
# deploy/release.sh: what it refuses, and the files that it makes from a build tree.
#   tests/portable/release.sh BUILD
set -euo pipefail
build=$(realpath "$1")
root=$(realpath "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../..")

fail() { echo "release.sh: $1" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -nE 's/^CMAKE_PROJECT_VERSION:[A-Z]+=//p' "$build/CMakeCache.txt")

# ---- Refusals ----

# refuses PATTERN ARGUMENT...: the recipe of the copy ends with an error that matches.
refuses() {
  local pattern=$1 said
  shift
  if said=$("$work/copy/deploy/release.sh" --no-install --no-check --output "$work/none" "$@" 2>&1); then fail "it did not refuse: $pattern"; fi
  grep -qE -- "$pattern" <<<"$said" || fail "no match for $pattern in: $said"
}
mkdir "$work/copy"
git=(git -C "$work/copy" -c user.name=trial -c user.email=trial@localhost)
cp -r "$root"/{CMakeLists.txt,deploy} "$work/copy"
refuses "made from a git checkout"
"${git[@]}" init --quiet
refuses "changes that are not committed"
commit() { "${git[@]}" add . && "${git[@]}" commit --quiet --allow-empty -m trial; }
commit
refuses "CHANGELOG.md has no heading '## $version'"
printf '# Changes\n\n## %s\n' "$version" >"$work/copy/CHANGELOG.md"
commit
"${git[@]}" tag "v$version"
commit
refuses "the tag v$version stands at another commit"
touch "$work/none/old"
refuses "is not empty"

# ---- The files ----

"$root/deploy/release.sh" --draft --no-check --no-install --build "$build" --output "$work/out" >"$work/log" 2>&1 || { cat "$work/log"; fail "deploy/release.sh"; }
grep -q "This is a draft" "$work/log" || fail "a draft is not called so"
cat >"$work/expected" <<FILES
SHA256SUMS
libranklog-dev_${version}_amd64.deb
libranklog0_${version}_amd64.deb
ranklog-$version-cp39-abi3-manylinux_2_28_x86_64.whl
ranklog-$version-linux-x86_64.tar.gz
ranklog-train_${version}_amd64.deb
ranklog_${version}_amd64.deb
FILES
LC_ALL=C ls "$work/out" | diff "$work/expected" - || fail "other files were made"
[ "$(wc -l <"$work/out/SHA256SUMS")" = 6 ] || fail "SHA256SUMS does not name all files"
(cd "$work/out" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS is wrong"
