#!/usr/bin/env bash
# Makes the Python wheel. See --help.
set -euo pipefail
called_from=$PWD
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: deploy/wheel.sh [--output DIR] [--build DIR] [--no-install] [--jobs N]

Makes ranklog-VERSION-cp39-abi3-manylinux_2_28_x86_64.whl: the Python package, with the self-contained library and the portable
ranklogd and ranklog inside. One wheel is for CPython 3.9 and later, on any x86-64 Linux with glibc 2.28 or newer. A free-threaded
CPython, such as 3.13t, does not load it, so pip refuses it there.

  --output DIR  directory for the wheel [build/wheel]
  --build DIR   build tree [build/package], which deploy/package.sh uses, too. An existing one needs RANKLOG_PORTABLE=ON
  --no-install  do not call deploy/install-deps.sh
  --jobs N      compile N files at a time [the number of cores]

The first time takes 8 to 12 CPU minutes, and downloads Debian's sources: see deploy/portable-deps.sh --help.

Examples:
  deploy/wheel.sh && pip install build/wheel/ranklog-*.whl
  deploy/wheel.sh --no-install --output /tmp/wheels
TEXT
}

. deploy/portable-tree.sh

build=$PWD/build/package
output=$PWD/build/wheel
read_arguments "" "$@"
[ "$install" = no ] || deploy/install-deps.sh --packages
# Debian's, because its setuptools and wheel are used: so no package index is needed.
python=/usr/bin/python3
"$python" -c 'import setuptools, wheel, pip' 2>/dev/null || fail "$python has no pip, setuptools or wheel; deploy/install-deps.sh --packages installs them"
for program in cmake ninja strip strings; do
  command -v "$program" >/dev/null || fail "$program not found; deploy/install-deps.sh --packages installs it"
done

portable_tree "$build" -DRANKLOG_PYTHON=ON
targets=(ranklog ranklogd_portable ranklog_cli_portable ranklog_python)
say "building ${targets[*]}"
NINJA_STATUS='[%f/%t] ' ninja -j "$jobs" -C "$build" "${targets[@]}" || fail "the build failed, see above; call this again to continue where it stopped"

say "making the wheel"
work=$(mktemp -d "$build/wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp client/python/{pyproject.toml,setup.py,README.md} LICENSE "$work"
echo "$version" >"$work/VERSION"
cp -r client/python/ranklog "$work/ranklog"
find "$work/ranklog" -name __pycache__ -prune -exec rm -r {} +
cmake --install "$build" --prefix "$work" --component python >"$work/log" || { cat "$work/log" >&2; fail "cannot install the extension module"; }
install -m 0644 "$build/lib/libranklog.so.$version" "$work/ranklog/libranklog.so.0"
install -D -t "$work/ranklog/bin" "$build"/portable/{ranklogd,ranklog}
strip --strip-unneeded "$work/ranklog"/bin/* "$work/ranklog"/*.so*
static_parts "$work/ranklog/bin/ranklogd" "$work/ranklog"
# A copy by mkdtemp is private; the files of a wheel are for everybody.
chmod -R u=rwX,go=rX "$work"
(cd "$work" && "$python" -m pip wheel --quiet --no-deps --no-build-isolation --no-cache-dir --wheel-dir dist . >>log 2>&1) || { cat "$work/log" >&2; fail "pip wheel failed, see above"; }
wheel=$(basename "$work"/dist/ranklog-*.whl)
mv -t "$output" "$work/dist/$wheel"
printf '%s  %s\n' "$(du -h "$output/$wheel" | cut -f 1)" "$output/$wheel"
