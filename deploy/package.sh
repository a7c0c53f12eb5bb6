#!/usr/bin/env bash
# Makes Debian packages, or a tarball for any Linux. See --help.
set -euo pipefail
called_from=$PWD
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: deploy/package.sh [--portable] [--output DIR] [--build DIR] [--no-install] [--jobs N]

Builds Ranklog, and makes Debian packages for the Debian release of this machine:
  ranklog         ranklogd, ranklog, man pages, completions, units for systemd, scripts for Slurm, example configuration
  libranklog0     the library that training programs load, with gRPC, Protobuf and Abseil inside
  libranklog-dev  its headers, a CMake package, a file for pkg-config
  ranklog-train   the trainer

  --portable    instead make one tarball for any x86-64 Linux with glibc 2.28 or newer: programs, library and headers,
                with their dependencies inside, without the trainer
  --output DIR  directory for the packages [build/packages]
  --build DIR   build tree [build/package]. An existing one keeps its configuration, which needs RANKLOG_PORTABLE=ON
  --no-install  do not call deploy/install-deps.sh
  --jobs N      compile N files at a time [the number of cores]

The first time takes 8 to 12 CPU minutes, and downloads Debian's sources: see deploy/portable-deps.sh --help.
The variables DEBFULLNAME and DEBEMAIL name the maintainer of the Debian packages.

Examples:
  deploy/package.sh && apt-get install ./build/packages/*.deb
  deploy/package.sh --portable && tar -xf build/packages/ranklog-*.tar.gz -C /usr/local --strip-components=1 && ldconfig
TEXT
}

. deploy/portable-tree.sh

portable=no
build=$PWD/build/package
output=$PWD/build/packages
read_arguments portable "$@"
[ "$install" = no ] || deploy/install-deps.sh --packages
for program in cmake cpack ninja dpkg-deb dpkg-shlibdeps file strip gzip; do
  command -v "$program" >/dev/null || fail "$program not found; deploy/install-deps.sh --packages installs it"
done

portable_tree "$build"
targets=(ranklog ranklogd ranklog_cli)
if [ "$portable" = yes ]; then
  targets+=(ranklogd_portable ranklog_cli_portable)
elif [ "$(cache RANKLOG_TRAINER)" = ON ]; then
  targets+=(ranklog-train)
fi
say "building ${targets[*]}"
NINJA_STATUS='[%f/%t] ' ninja -j "$jobs" -C "$build" "${targets[@]}" || fail "the build failed, see above; call this again to continue where it stopped"

work=$(mktemp -d "$build/packages.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Lists the packages with their sizes.
report() { for file in "$@"; do printf '%s  %s\n' "$(du -h "$file" | cut -f 1)" "$file"; done; }

if [ "$portable" = no ]; then
  say "making Debian packages"
  contact=()
  [ -z "${DEBEMAIL:-}" ] || contact=(-D "CPACK_PACKAGE_CONTACT=${DEBFULLNAME:-$DEBEMAIL} <$DEBEMAIL>")
  cpack --config "$build/CPackConfig.cmake" -B "$work" "${contact[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "cpack failed, see above"; }
  files=("$work"/*.deb)
  mv -t "$output" "${files[@]}"
  report "${files[@]/#$work/$output}"
  exit 0
fi

say "making a tarball"
name=ranklog-$version-linux-x86_64
for component in library development programs systemd; do
  # The prefix is for the units, which name the programs.
  DESTDIR=$work cmake --install "$build" --prefix /usr/local --component $component >>"$work/log" || { cat "$work/log" >&2; fail "cannot install $component"; }
done
mv "$work/usr/local" "$work/$name"
install -t "$work/$name/bin" "$build"/portable/{ranklogd,ranklog}
strip --strip-unneeded "$work/$name"/bin/* "$work/$name"/lib/libranklog.so.*.*
doc=$work/$name/share/doc/ranklog
install -m 0644 LICENSE "$doc/LICENSE"
install -m 0644 deploy/tarball.md "$doc/README.md"
static_parts "$work/$name/bin/ranklogd" "$doc"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -9n >"$work/$name.tar.gz"
mv -t "$output" "$work/$name.tar.gz"
report "$output/$name.tar.gz"
