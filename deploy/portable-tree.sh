# What deploy/package.sh, deploy/wheel.sh and deploy/release.sh share: their arguments, and the build tree of the portable library and
# programs. To be sourced, in the root of the sources, with the caller's directory in $called_from. Needs a function `usage`.

say() { printf '== %s (%s)\n' "$1" "$(date +%T)"; }
fail() { echo "${0##*/}: $1" >&2; exit 1; }
wrong() { echo "${0##*/}: $1" >&2; usage >&2; exit 2; }

# read_arguments FLAGS ARGUMENT...: sets $output, $build and $jobs if they are given, $install=no for --no-install, and
# NAME=yes for each --NAME of the words FLAGS. Then sees that packages can be made here.
read_arguments() {
  local flags=" $1 "
  shift
  install=yes
  jobs=$(nproc)
  while [ $# -gt 0 ]; do
    case "$1" in
      --output | --build | --jobs)
        [ $# -ge 2 ] && [ -n "$2" ] || wrong "$1 needs a value"
        case "$1" in
          --jobs) [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] || wrong "--jobs needs a positive number, not '$2'"; jobs=$2 ;;
          *) declare -g "${1#--}=$(cd "$called_from" && realpath -m -- "$2")" ;;
        esac
        shift
        ;;
      --no-install) install=no ;;
      -h | --help) usage; exit 0 ;;
      --*) [[ $flags = *" ${1#--} "* ]] || wrong "unknown argument '$1'"; local name=${1#--}; declare -g "${name//-/_}=yes" ;;
      *) wrong "unknown argument '$1'" ;;
    esac
    shift
  done
  [ "$(uname -m)" = x86_64 ] || fail "this works on x86-64 only: libranklog.so takes old symbols of glibc by their names there"
  mkdir -p "$output" 2>/dev/null && [ -w "$output" ] || fail "cannot write $output"
}

# cache NAME: a variable of the build tree $build.
cache() { sed -nE "s/^$1:[A-Z]+=//p" "$build/CMakeCache.txt"; }

# portable_tree DIR [CMAKE OPTION...]: configures it, unless it is a portable tree with these options. Sets $build, $version and
# $SOURCE_DATE_EPOCH.
portable_tree() {
  build=$1
  shift
  if [ ! -e "$build/CMakeCache.txt" ]; then
    say "configuring $build"
    mkdir -p "$build"
    local launcher=()
    ! command -v ccache >/dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRANKLOG_PORTABLE=ON -DRANKLOG_TESTS=OFF "${launcher[@]}" \
      -DCMAKE_CXX_FLAGS="-fstack-protector-strong -D_FORTIFY_SOURCE=2" -DCMAKE_EXE_LINKER_FLAGS="-Wl,-z,relro -Wl,-z,now" "$@" \
      >"$build.log" 2>&1 || { cat "$build.log" >&2; rm -f "$build/CMakeCache.txt"; fail "cannot configure $build"; }
  fi
  [ "$(cache CMAKE_HOME_DIRECTORY)" = "$PWD" ] || fail "$build is the build tree of $(cache CMAKE_HOME_DIRECTORY)"
  [ "$(cache RANKLOG_PORTABLE)" = ON ] || fail "$build is configured without -DRANKLOG_PORTABLE=ON; take another --build"
  local option name
  for option in "$@"; do
    name=${option%%=*}
    [ "$(cache "${name#-D}")" = "${option#*=}" ] || cmake "$build" "$option" >"$build.log" 2>&1 || { cat "$build.log" >&2; fail "cannot configure $build"; }
  done
  version=$(cache CMAKE_PROJECT_VERSION)
  # Two builds of a commit make the same packages.
  if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || date +%s)
  fi
  export SOURCE_DATE_EPOCH
}

# static_parts RANKLOGD DIR: writes DIR/static-parts and DIR/licences/PART, from the Debian packages that the parts were built from.
static_parts() {
  local program=$1 doc=$2 package from header
  strings "$program" | sed -n "s/^ranklog $version with //p" | sed 's/, /\n/g' >"$doc/static-parts"
  [ -s "$doc/static-parts" ] || fail "ranklogd does not name its static parts"
  mkdir "$doc/licences"
  while read -r package _; do
    case $package in
      abseil) from=libabsl-dev ;;
      c-ares) from=libc-ares-dev ;;
      civetweb) from=libcivetweb-dev ;;
      curl) from=libcurl4-openssl-dev ;;
      fmtlib) from=libfmt-dev ;;
      grpc) from=libgrpc++-dev ;;
      openssl) from=libssl-dev ;;
      prometheus-cpp) from=prometheus-cpp-dev ;;
      protobuf) from=libprotobuf-dev ;;
      re2) from=libre2-dev ;;
      spdlog) from=libspdlog-dev ;;
      sqlite3) from=libsqlite3-dev ;;
      zlib) from=zlib1g-dev ;;
      *) fail "the licence of the included package $package is unknown; add it here" ;;
    esac
    cp -L "/usr/share/doc/$from/copyright" "$doc/licences/$package"
  done <"$doc/static-parts"
  for header in cli11:libcli11-dev nlohmann-json3:nlohmann-json3-dev; do cp -L "/usr/share/doc/${header#*:}/copyright" "$doc/licences/${header%:*}"; done
  cp service/ui/third_party/uPlot.LICENSE "$doc/licences/uplot"  # its script is inside `ranklog`
}
