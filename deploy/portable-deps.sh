#!/usr/bin/env bash
# Builds the static archives of portable binaries that Debian does not provide. See --help.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/portable-deps.sh [--programs] [--sources DIR] [--update]

Prints the folder of libprotobuf-lite.a and of the Abseil archives, with position-independent code. If they are missing,
builds them first: about 2 CPU minutes, less with ccache. Debian's own archives of both are for executables only.
CMake calls this script if RANKLOG_PORTABLE is ON.

  --programs     instead the further archives of the programs: an HTTP-only libcurl.a, fmt, spdlog, civetweb and
                 prometheus-cpp; about a CPU minute. Debian has an archive only of curl, without curl's dependencies

The sources are Debian's source packages, with Debian's patches, of the installed upstream version. apt-get downloads
and verifies them, from the package sources of this machine. Does not need root.

  --sources DIR  use the source packages (.dsc, .orig.tar.*, .debian.tar.xz) in DIR, and no network
  --update       build again, for example after a security update of a source package

The folder is $XDG_CACHE_HOME/ranklog/portable/VERSIONS (~/.cache). Its file `versions` names the sources.

Examples:
  deploy/portable-deps.sh
  apt-get update && apt-get upgrade && deploy/portable-deps.sh --update && deploy/portable-deps.sh --programs --update
TEXT
}

fail() { echo "portable-deps.sh: $1" >&2; exit 1; }

packages=(protobuf=libprotobuf-dev abseil=libabsl-dev) # SOURCE=PACKAGE, whose version counts
sources=
update=no
while [ $# -gt 0 ]; do
  case "$1" in
    --sources)
      [ -n "${2:-}" ] || { echo "portable-deps.sh: --sources needs a folder" >&2; exit 2; }
      sources=$(realpath -e "$2")
      shift
      ;;
    --programs) packages=(curl=libcurl4-openssl-dev fmtlib=libfmt-dev spdlog=libspdlog-dev civetweb=libcivetweb-dev prometheus-cpp=prometheus-cpp-dev) ;;
    --update) update=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "portable-deps.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

declare -A installed
name=
for package in "${packages[@]}"; do
  version=$(dpkg-query -W -f '${source:Version}' "${package#*=}" 2>/dev/null) || fail "${package#*=} is not installed; run deploy/install-deps.sh"
  package=${package%=*}
  installed[$package]=$version
  name+=${name:+_}$package-${version#*:}
done

cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/ranklog/portable
built=$cache/$name
if [ -e "$built/versions" ] && [ "$update" = no ]; then
  echo "$built"
  exit 0
fi
command -v dpkg-source >/dev/null || fail "dpkg-source not found; install the package dpkg-dev"

mkdir -p "$cache"
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
say() { echo "portable-deps.sh: $1" >&2; }

# Downloads the source packages to $sources, with lists of packages beside apt's own.
download() {
  mkdir -p "$work"/apt/{sources.list.d,lists/partial,cache/archives/partial} "$work/sources"
  local file
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed -E 's/^Types:.*/Types: deb-src/' "$file" >"$work/apt/sources.list.d/${file##*/}"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$file" ] || sed -nE 's/^[[:space:]]*deb(-src)?([[:space:]])/deb-src\2/p' "$file" | sort -u >"$work/apt/sources.list.d/${file##*/}"
  done
  local apt=(apt-get -qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/apt/sources.list.d"
    -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root)
  "${apt[@]}" update >&2
  sources=$work/sources
  (cd "$sources" && "${apt[@]}" source --download-only "${packages[@]%=*}" >&2)
}

# unpack PACKAGE: to $work/PACKAGE. The version may be newer than what is installed, but only in Debian's patches.
unpack() {
  local found=("$sources/$1"_*.dsc)
  [ ${#found[@]} = 1 ] && [ -e "${found[0]}" ] || fail "there must be one $1_*.dsc in $sources"
  dpkg-source -x "${found[0]}" "$work/$1" >"$work/$1.log" 2>&1 || { cat "$work/$1.log" >&2; fail "cannot unpack ${found[0]}"; }
  local version
  version=$(sed -nE '1s/.*\((.*)\).*/\1/p' "$work/$1/debian/changelog")
  [ "${version%-*}" = "${installed[$1]%-*}" ] || fail "the source of $1 is of version $version, but ${installed[$1]} is installed; upgrade the package"
  echo "$1 $version" >>"$work/versions"
}

# compile PACKAGE TARGETS... -- CMAKE_OPTIONS...: into $work/build/PACKAGE.
compile() {
  local package=$1 targets=(); shift
  while [ "$1" != -- ]; do targets+=("$1"); shift; done
  shift
  cmake -S "$work/$package" -B "$work/build/$package" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_CXX_STANDARD=17 \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG $sections $hardening" \
    -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG $sections -fvisibility-inlines-hidden $hardening" "${launcher[@]}" "$@" >"$work/cmake.log" 2>&1 ||
    { cat "$work/cmake.log" >&2; fail "cannot configure $package"; }
  cmake --build "$work/build/$package" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" --target "${targets[@]}" >"$work/build.log" 2>&1 ||
    { cat "$work/build.log" >&2; fail "cannot build $package"; }
}

# Sections, so that the linker drops unused code; hidden, so that calls are direct. All else is as in Debian's build.
sections="-ffunction-sections -fdata-sections -fvisibility=hidden"
hardening="-fstack-protector-strong -D_FORTIFY_SOURCE=2"
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache); fi
export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=true  # the folder has another name each time

[ -n "$sources" ] || { say "downloading the sources of ${packages[*]%=*}"; download; }
for package in "${packages[@]%=*}"; do unpack "$package"; done
say "building $(paste -sd , "$work/versions" | sed 's/,/, /g') with position-independent code"
case ${packages[0]} in
  protobuf=*)
    # The part of Abseil that gRPC needs, which is more than the part that we use.
    mapfile -t needed < <(pkg-config --static --libs-only-l grpc++_unsecure | grep -oE 'absl_[a-z0-9_]+' | sort -u)
    [ ${#needed[@]} -gt 0 ] || fail "pkg-config does not know grpc++_unsecure; run deploy/install-deps.sh"
    compile protobuf libprotobuf-lite -- -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF -Dprotobuf_WITH_ZLIB=OFF
    compile abseil "${needed[@]/absl_/}" -- -DBUILD_TESTING=OFF
    ;;
  curl=*)
    # No path of CA certificates: service/deliver/http/machine/certificates.cc knows those of the distributions.
    compile curl libcurl -- -DHTTP_ONLY=ON -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DENABLE_MANUAL=OFF -DENABLE_UNIX_SOCKETS=OFF \
      -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBPSL=OFF -DUSE_LIBIDN2=OFF -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none
    compile fmtlib fmt -- -DFMT_TEST=OFF -DFMT_DOC=OFF
    compile spdlog spdlog -- -DSPDLOG_FMT_EXTERNAL=ON -DSPDLOG_BUILD_EXAMPLE=OFF -DSPDLOG_BUILD_TESTS=OFF
    # Metrics are on loopback, without TLS.
    compile civetweb civetweb-c-library civetweb-cpp -- -DCIVETWEB_BUILD_TESTING=OFF -DCIVETWEB_ENABLE_CXX=ON -DCIVETWEB_ENABLE_SSL=OFF \
      -DCIVETWEB_ENABLE_SERVER_EXECUTABLE=OFF -DCIVETWEB_ENABLE_ASAN=OFF
    compile prometheus-cpp core pull -- -DENABLE_TESTING=OFF -DENABLE_PUSH=OFF -DUSE_THIRDPARTY_LIBRARIES=OFF -DOVERRIDE_CXX_STANDARD_FLAGS=OFF
    ;;
esac

mkdir "$work/done"
find "$work/build" -name '*.a' -exec mv -t "$work/done" {} +
mv "$work/versions" "$work/done/versions"
[ "$update" = no ] || rm -rf "$built"
mv -T "$work/done" "$built" 2>/dev/null || [ -e "$built/versions" ] || fail "cannot write $built"
echo "$built"
