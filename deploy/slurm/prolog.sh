#!/bin/bash
# A Prolog of Slurm: starts the user's ranklogd on this node before the job's first rank. README.md in this folder
# describes the set-up. It returns within 8 s and never fails, because a log must not drain a node.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec </dev/null >/dev/null 2>&1 # slurmd waits for whoever holds its pipe
umask 022

run=/run/ranklog
usual=/var/lib/ranklog # daemons that ranks start, and commands, look there
uid=$SLURM_JOB_UID
gid=$SLURM_JOB_GID
state=$usual
flags=(--idle-exit 1h)
# May set `state`, `flags`, PATH and variables of ranklogd, such as RANKLOG_ALLOW_HTTP.
# shellcheck source=/dev/null
[ ! -r /etc/ranklog/slurm.conf ] || . /etc/ranklog/slurm.conf
state=$(realpath -ms -- "${state:-$usual}")

say() { echo "$(date +%FT%T) job $SLURM_JOB_ID of user $uid: $*"; }

# Makes the directory $1 (an absolute path) if it is missing. False unless root alone can write to it and to all directories
# above it. Otherwise a user could replace it, for example by a link to another user's directory.
only_root_changes() {
  [ "$1" = / ] || only_root_changes "$(dirname -- "$1")" || return 1
  mkdir -- "$1" 2>/dev/null
  [[ $(stat -c '%u %A' -- "$1") =~ ^0\ d....-..-.$ ]] && return 0
  say "$1 must be a directory of root, not a link, that nobody else may write: $(stat -c 'it is %A, of user %u' -- "$1" 2>&1)"
  return 1
}

only_root_changes "$run" || exit 0
exec >>"$run/slurm.log" 2>&1
if [ -d /run/systemd/system ] && timeout 1 systemctl cat "ranklogd@$uid.socket" >/dev/null 2>&1; then
  timeout 5 systemctl start "ranklogd@$uid.socket"
  exit 0
fi
only_root_changes "$state" || { say "no ranklogd is started"; exit 0; }
for dir in "$run/$uid" "$state/$uid"; do
  [ ! -L "$dir" ] || { say "$dir is a link: no ranklogd is started"; exit 0; }
  install -d -m 0700 -o "$uid" -g "$gid" "$dir" || exit 0
done
if [ "$state" != "$usual" ] && only_root_changes "$usual" && [ "$(readlink "$usual/$uid")" != "$state/$uid" ]; then
  ln -sTf "$state/$uid" "$usual/$uid" ||
    say "remove $usual/$uid, or move it to $state/$uid: ranks that lose this daemon, and ranklog, use that store"
fi
# The key for the daemons of other nodes, if homes are not on all nodes. ranklogd does not start if it cannot read it.
key=/etc/ranklog/keys/$uid
if [ -e "$key" ] && setpriv --reuid="$uid" --regid="$gid" --init-groups test -r "$key"; then
  flags+=(--peer-key "$key")
elif [ -e "$key" ]; then
  say "$key is not used: the user cannot read it; run: chmod 755 ${key%/*} && chown $uid $key && chmod 600 $key"
fi
# The daemon needs a session of its own before this script ends, because slurmd then kills the script's process group.
timeout --kill-after=0.5 5 \
  setpriv --reuid="$uid" --regid="$gid" --init-groups --no-new-privs \
  env -i -C / PATH="$PATH" HOME="$(timeout 1 getent passwd "$uid" | cut -d: -f6)" RANKLOG_STARTED_BY=slurm \
  ${SLURM_CONF:+"SLURM_CONF=$SLURM_CONF"} \
  ranklogd --background --listen "unix:$run/$uid/ranklogd.sock" --state-dir "$state/$uid" "${flags[@]}"
code=$?
[ "$code" = 0 ] || say "ranklogd did not start within 5 s (exit code $code)"
exit 0
