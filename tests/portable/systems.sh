#!/usr/bin/env bash
# Tests the files of a release on bare systems that debootstrap downloads. The Debian packages are tested on this release of
# Debian, the tarball and the wheel on Debian 11 (glibc 2.31) and 13 (2.41). On each system, a program is compiled, and logs to a
# daemon that it starts. Needs root, about 10 minutes, and 400 MB of downloads from the mirror of this machine's apt.
#   tests/portable/systems.sh FILES     the directory that deploy/release.sh filled
set -euo pipefail
root=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../..
files=$(realpath "$1")

fail() { echo "systems.sh: $1" >&2; exit 1; }
say() { printf '== %s (%s)\n' "$1" "$(date +%T)"; }
[ "$(id -u)" = 0 ] || fail "debootstrap needs root"
for program in debootstrap systemd-nspawn openssl python3; do command -v "$program" >/dev/null || fail "$program not found; deploy/install-deps.sh --tests installs it"; done
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016 # of apt
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $release" | sed -n 1p)
[ -n "$mirror" ] || fail "apt has no list of packages of $release; run apt-get update"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/ranklog-systems.XXXXXX")
server=
stop() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"; }
trap stop EXIT

# An HTTPS server that is trusted only by a system with its certificate. It prints the path of each request.
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=trial -addext subjectAltName=IP:127.0.0.1 -keyout "$work/key" -out "$work/certificate" 2>/dev/null
python3 - "$work" >"$work/requests" <<'PYTHON' &
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print("request", self.path, flush=True)
        self.send_response(401)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/certificate", sys.argv[1] + "/key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
PYTHON
server=$!
until [ -s "$work/requests" ]; do sleep 0.1; done
port=$(head -n 1 "$work/requests")

# The steps of a user on that system, and of a user of Python.
cat >"$work/try" <<'TRY'
set -eux
port=$1
ldconfig
g++ -std=c++17 /trial/example.cc -o /trial/example -lranklog
export RANKLOG_DESTINATIONS=local RANKLOG_FINISH_TIMEOUT_MS=60000 HOME=/root
/trial/example
timeout 60 ranklog tail latest >/dev/null
ranklog runs | grep -E 'example +finished +1000 +999'
ranklog verify latest
ranklog doctor || true
ranklog status
: >/trial/answer
printf '%040d' 0 | ranklog login --base-url "https://127.0.0.1:$port" >/trial/answer 2>&1 && exit 1
grep -i certificate /trial/answer
cat /trial/certificate >>/etc/ssl/certs/ca-certificates.crt
printf '%040d' 0 | ranklog login --base-url "https://127.0.0.1:$port" >/trial/answer 2>&1 && exit 1
cat /trial/answer
if grep -i certificate /trial/answer; then exit 1; fi
ranklog stop
TRY
cat >"$work/try-python" <<'TRY'
set -eux
export RANKLOG_DESTINATIONS=local RANKLOG_FINISH_TIMEOUT_MS=60000 HOME=/home
python3 -m venv /trial/venv
/trial/venv/bin/pip install --quiet --no-index /trial/ranklog-*.whl
PATH=/trial/venv/bin:$PATH
python /trial/example.py
timeout 60 ranklog tail latest >/dev/null
ranklog runs | grep -E 'example-python +finished +1000 +999'
ranklog verify latest
ranklog stop
TRY

# try_on SUITE PACKAGES COMMANDS: bootstraps a system, and runs COMMANDS and then the steps of a user.
try_on() {
  local suite=$1 include=$2 commands=$3 requests
  say "$suite"
  debootstrap --variant=minbase --include="$include" "$suite" "$work/root" "$mirror" >"$work/debootstrap" 2>&1 || { tail "$work/debootstrap"; fail "debootstrap $suite"; }
  mkdir "$work/root/trial"
  cp "$root"/client/example.{cc,py} "$work"/try{,-python} "$work/certificate" "$files"/* "$work/root/trial/"
  requests=$(grep -c request "$work/requests" || true)
  systemd-nspawn --quiet --register=no --keep-unit --pipe --resolv-conf=replace-host -D "$work/root" \
    sh -exc "$commands" sh "$port" </dev/null >"$work/log" 2>&1 || { tail -n 40 "$work/log"; fail "$suite"; }
  [ "$(grep -c request "$work/requests")" -gt "$requests" ] || fail "$suite: no request came to the HTTPS server"
  grep -h -E '^(ldd|ldd \(.*)' "$work/log" || true
  rm -rf "$work/root"
}

try_on "$release" ca-certificates '
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /trial/ranklog_*.deb /trial/libranklog0_*.deb /trial/libranklog-dev_*.deb g++
  sh /trial/try "$1"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --simulate /trial/ranklog-train_*.deb
  apt-get purge -y -qq ranklog libranklog0 libranklog-dev
  test -s /root/.local/state/ranklog/ranklog.db
  test -z "$(find /etc /usr /var/lib/ranklog -name "*ranklog*")"'
for suite in bullseye trixie; do
  try_on "$suite" ca-certificates,g++,python3-venv 'sh /trial/try-python; tar -xf /trial/ranklog-*.tar.gz -C /usr/local --strip-components=1; ldd --version | sed -n 1p; sh /trial/try "$1"'
done
say "all systems work"
