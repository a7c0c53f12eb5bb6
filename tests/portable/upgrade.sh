#!/usr/bin/env bash
# The Debian packages under a real systemd, booted in a container on an overlay of this machine's root. They are installed,
# upgraded while a rank logs and its tracker is down, removed, installed again, and purged. The tracker gets each row once.
#   tests/portable/upgrade.sh BUILD PACKAGES     the build tree; the folder of the .deb files
set -euo pipefail
build=$(realpath "$1")
packages=$(realpath "$2")
interop=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../interop
readonly uid=54321 own=54322 # of system units; with a systemd of his own

fail() { echo "upgrade.sh: $1" >&2; exit 1; }
absent() { echo "absent: $1"; [ -z "${CI:-}" ] || exit 1; exit 0; }
[ "$(id -u)" = 0 ] || absent "root, which boots a container"
for program in systemd-nspawn dpkg-deb setpriv; do command -v "$program" >/dev/null || absent "$program"; done

work=$(mktemp -d)
children=()
stop() {
  code=$?
  [ "$code" = 0 ] || tail -n 50 "$work"/{container,rank,tracker,boot} "$work/boot.d/console" >&2 2>/dev/null || true
  for pid in "${children[@]}"; do kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap stop EXIT

# wait_for WHAT CMD...: repeats the command until it succeeds.
wait_for() {
  local what=$1 end=$((SECONDS + 60)); shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what: not within a minute"
    sleep 0.1
  done
}

# ---- The same packages as a later version ----

mkdir "$work/debs"
cp "$packages"/{ranklog,libranklog0}_*.deb "$work/debs"
for deb in "$work"/debs/*.deb; do
  dpkg-deb -R "$deb" "$work/unpacked"
  sed -i 's/^Version: .*/&+later/' "$work/unpacked/DEBIAN/control"
  if [ -e "$work/unpacked/DEBIAN/prerm" ]; then # one of the units below never stops
    sed -i 's/timeout 30 deb-systemd-invoke --user/timeout 1 deb-systemd-invoke --user/' "$work/unpacked/DEBIAN/prerm"
    grep -q 'timeout 1 deb' "$work/unpacked/DEBIAN/prerm" || fail "prerm does not limit the wait for users' units"
  fi
  dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/unpacked" "${deb%.deb}.later.deb" >/dev/null
  rm -rf "$work/unpacked"
done
cp "$build/tests/logging_rank" "$work/debs"

# ---- Boot ----

cat >"$work/prepare" <<'PREPARE'
set -eu
root=$2
mkdir "$root/trial" && cp "$1"/* "$root/trial/"
for uid in 54321 54322; do
  echo "u$uid:x:$uid:$uid::/home/u$uid:/bin/sh" >>"$root/etc/passwd"
  echo "u$uid:*:20000::::::" >>"$root/etc/shadow"
  install -d -o $uid -g $uid -m 0700 "$root/home/u$uid"
done
# Otherwise the user's systemd would end with the session of each command.
install -d "$root/var/lib/systemd/linger" && touch "$root/var/lib/systemd/linger/u54322"
# It delivers for 20 s before it stops; the tracker is down.
install -d "$root/etc/systemd/system/ranklogd@.service.d"
printf '[Service]\nExecStart=\nExecStart=/usr/bin/ranklogd --state-dir %%S/ranklog/%%i --idle-exit 10m --drain 1s\n' >"$root/etc/systemd/system/ranklogd@.service.d/trial.conf"
rm -f "$root/usr/sbin/policy-rc.d" # which containers have, so that no service is started
PREPARE
mkdir "$work/boot.d"
"$interop/systemd_container.sh" "$work/boot.d" boot -- bash "$work/prepare" "$work/debs" >"$work/boot" 2>&1 &
children+=($!)
"$interop/systemd_container.sh" "$work/boot.d" ready 2>"$work/not_ready" || absent "a container: $(tail -n 1 "$work/not_ready")"
inside() { "$interop/systemd_container.sh" "$work/boot.d" exec "$@"; }
# by_user UID CMD...
by_user() { local user=$1; shift; inside setpriv --reuid "$user" --regid "$user" --clear-groups env -C / HOME="/home/u$user" "$@"; }
install_debs() { inside sh -c "dpkg -i /trial/$1" >>"$work/container" 2>&1 || fail "dpkg -i $1"; }
main_pid() { inside systemctl show --property MainPID --value "ranklogd@$uid.service"; }
of_run() { by_user $uid ranklog runs --json | python3 -c "import json, sys; run = json.load(sys.stdin)[0]; print($1)"; }

# ---- Install ----

install_debs "*_amd64.deb"
inside systemctl enable --quiet --now "ranklogd@$uid.socket"
inside systemctl start "user@$own.service"
inside systemctl --user --machine="$own@" start ranklogd.service
own_pid() { inside systemctl --user --machine="$own@" show --property MainPID --value ranklogd.service; }
own_before=$(own_pid)

# ---- A rank logs; its tracker is down ----

python3 -c 'import socket, time
held = socket.socket()
held.bind(("127.0.0.1", 0))
print(held.getsockname()[1], flush=True)
time.sleep(600)' >"$work/port" &
holder=$!
children+=("$holder")
wait_for "a port" test -s "$work/port"
port=$(cat "$work/port")
by_user $uid LD_LIBRARY_PATH=/usr/lib RANKLOG_START_DAEMON=0 RANKLOG_RUN_ID=job RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 \
  RANKLOG_FINISH_TIMEOUT_MS=60000 WANDB_BASE_URL="http://127.0.0.1:$port" WANDB_API_KEY="$(printf '%040d' 0)" \
  /trial/logging_rank 1000000 0 1000 /tmp/stop >"$work/rank" 2>&1 &
rank=$!
children+=("$rank")
some_rows() { [ "$(of_run 'run["rows"]')" -ge "$1" ]; }
wait_for "rows of the rank" some_rows 100
before=$(main_pid)

# ---- Upgrade ----

install_debs "*.later.deb"
after=$(main_pid)
[ "$after" != "$before" ] && [ "$after" != 0 ] || fail "the upgrade did not restart the daemon: $before, $after"
[ "$(inside readlink "/proc/$after/exe")" = /usr/bin/ranklogd ] || fail "the daemon is that of before the upgrade"
own_after=$(own_pid)
[ "$own_after" != "$own_before" ] && [ "$own_after" != 0 ] || fail "the upgrade did not restart the daemon of a user's systemd: $own_before, $own_after"
rows=$(of_run 'run["rows"]')
wait_for "rows after the upgrade" some_rows $((rows + 100))
inside touch /tmp/stop
wait "$rank" || fail "the rank: $(cat "$work/rank")"
grep -q "^logged [0-9]*, durable$" "$work/rank" || fail "the rank: $(cat "$work/rank")"
logged=$(sed -nE 's/^logged ([0-9]+), durable$/\1/p' "$work/rank")
[ "$(of_run 'run["rows"]')" = "$logged" ] || fail "of $logged rows that the rank logged, the store has $(of_run 'run["rows"]')"
[ "$(of_run 'run["destinations"][0]["delivered_rows"]')" = 0 ] || fail "rows were delivered without a tracker"

# ---- Remove, with undelivered rows ----

store=/var/lib/ranklog/$uid/ranklog.db
# One user's unit never stops.
dropin=/home/u$own/.config/systemd/user/ranklogd.service.d
by_user $own sh -c "mkdir -p $dropin && printf '[Service]\nExecStop=/bin/sleep infinity\nTimeoutStopSec=infinity\n' >$dropin/trial.conf"
inside systemctl --user --machine="$own@" daemon-reload
inside timeout 120 dpkg -r ranklog >>"$work/container" 2>&1 || fail "dpkg -r"
inside pkill -KILL -u $own -x "ranklogd|sleep" || fail "the user's unit has stopped"
if inside test -e /usr/bin/ranklogd; then fail "the removal left ranklogd"; fi
if inside systemctl is-active --quiet "ranklogd@$uid.socket" "ranklogd@$uid.service"; then fail "the removal left a unit active"; fi
if inside pgrep -x ranklogd >/dev/null; then fail "the removal left a daemon"; fi
inside test -s "$store" || fail "the removal deleted the store"

# ---- Install again: the socket is still enabled; the pending rows are delivered ----

install_debs "*.later.deb"
[ "$(inside systemctl is-enabled "ranklogd@$uid.socket")" = enabled ] || fail "the socket is no longer enabled"
kill "$holder"
wait "$holder" 2>/dev/null || true
"$build/tests/fake-wandb" "$port" >"$work/tracker" 2>&1 &
children+=($!)
wait_for "the tracker" test -s "$work/tracker"
by_user $uid sh -c 'printf "%040d" 0 | ranklog login --base-url "$0"' "http://127.0.0.1:$port" >>"$work/container" 2>&1 || fail "ranklog login"
inside systemctl start "ranklogd@$uid.socket" # as a boot does
by_user $uid ranklog sync --timeout 60s >>"$work/container" 2>&1 || fail "ranklog sync"
[ "$(of_run 'run["destinations"][0]["delivered_rows"]')" = "$logged" ] || fail "$(of_run 'run["destinations"]')"
by_user $uid ranklog verify job >>"$work/container" 2>&1 || fail "ranklog verify"

# ---- Purge ----

inside dpkg -P ranklog libranklog0 >"$work/purge" 2>&1 || fail "dpkg -P: $(cat "$work/purge")"
grep -q "the logs of users stay in /var/lib/ranklog" "$work/purge" || fail "the purge does not report what stays: $(cat "$work/purge")"
inside test -s "$store" || fail "the purge deleted the store"
left=$(inside sh -c 'find /etc /usr /lib -name "*ranklog*" ! -path "*/ranklogd@.service.d" 2>/dev/null; dpkg-query -W "*ranklog*" 2>/dev/null || true')
[ -z "$left" ] || fail "the purge left $left"
if inside systemctl --failed --no-legend | grep ranklog; then fail "units failed"; fi
