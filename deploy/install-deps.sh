#!/usr/bin/env bash
# Installs the Debian 12 packages that Ranklog needs. This is the only list of them.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/install-deps.sh [--packages] [--tests] [--list]

Installs the packages for building and running Ranklog, by apt-get. Needs root, or sudo. A second call is harmless and
quick, because it does not change installed packages.

  --packages  also install the needs of deploy/package.sh and deploy/wheel.sh
  --tests     also install the needs of the tests and checks (GoogleTest, clang, the reference programs, ...)
  --list      print the packages, install nothing

Examples:
  deploy/install-deps.sh
  deploy/install-deps.sh --tests --list
TEXT
}

build=(
  g++ cmake ninja-build pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev   # the wire
  libsqlite3-dev libcurl4-openssl-dev zlib1g-dev libssl-dev                             # the store, delivery
  libcli11-dev libspdlog-dev nlohmann-json3-dev prometheus-cpp-dev libcivetweb-dev      # flags, logs, JSON, metrics, the page
  libtorch-dev libgloo-dev libopenblas0-pthread                                         # the trainer; its BLAS is 15 times faster than the default one
  libsentencepiece-dev                                                                  # --tokenizer bpe; without it the trainer has bytes only
  jargon-text                                                                           # the built-in text that it trains on
)
packaging=(
  dpkg-dev file binutils                                                                # dependencies of the packages; source packages, for deploy/portable-deps.sh
  python3-dev python3-pip python3-setuptools python3-wheel                              # the Python wheel
)
tests=(
  "${packaging[@]}"
  libgtest-dev libgmock-dev libbenchmark-dev libcpp-httplib-dev libseccomp-dev          # tests, benchmarks, the fake tracker
  chromium chromium-driver                                                              # a browser for the local page
  clang clang-tidy clang-format libclang-rt-14-dev llvm                                 # checks, AddressSanitizer and its symbolizer
  libc++-dev libc++abi-dev                                                              # a trainer with another C++ library than ours
  lintian debootstrap                                                                   # judge of the Debian packages; other systems to try them in
  groff-base zsh fish                                                                   # judges of the man pages and the completions
  ccache git sqlite3 util-linux procps mount e2fsprogs iproute2
  sshfs openssh-sftp-server                                                             # a real network file system
  systemd-container dbus dbus-user-session libpam-systemd                               # a real systemd, booted, and a user's
  python3 python3-venv                                                                  # the real W&B SDK and a gRPC health client as referees
  prometheus                                                                            # promtool, the judge of the metrics
  python3-torch slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge openmpi-bin # the real torchrun, Slurm and mpirun
)

packages=("${build[@]}")
list=no
for argument in "$@"; do
  case "$argument" in
    --packages) packages+=("${packaging[@]}") ;;
    --tests) packages+=("${tests[@]}") ;;
    --list) list=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "install-deps.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ "$list" = yes ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

command -v apt-get >/dev/null || { echo "install-deps.sh: apt-get not found; this script is for Debian 12. --list prints the packages; with them installed, pass --no-install to the script that you called" >&2; exit 1; }

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps.sh: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-deps.sh: run this as root, or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "install-deps.sh: installing ${#missing[@]} packages: ${missing[*]}"
{ "${as_root[@]}" apt-get update -qq &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; } ||
  { echo "install-deps.sh: apt-get failed (see above). If all is installed in another way, pass --no-install to the script that you called" >&2; exit 1; }
