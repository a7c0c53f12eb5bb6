# What deploy/package.sh and deploy/wheel.sh share: the build tree of the portable library and programs. To be sourced, in the root
# of the sources. Needs a function `fail`.

say() { printf '== %s (%s)\n' "$1" "$(date +%T)"; }
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
