#!/bin/bash
# A Prolog of Slurm: when the job's first rank starts, its user has a ranklogd on this node. README.md beside this
# says how to set it up. It returns within 6 s and never fails: a log must not drain a node.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec </dev/null >/dev/null 2>&1 # slurmd waits for whoever holds its pipe
umask 022

run=/run/ranklog
uid=$SLURM_JOB_UID
gid=$SLURM_JOB_GID
state=/var/lib/ranklog
flags=(--idle-exit 1h)
# May set `state`, `flags`, PATH and variables of ranklogd, such as RANKLOG_ALLOW_HTTP.
# shellcheck source=/dev/null
[ ! -r /etc/ranklog/slurm.conf ] || . /etc/ranklog/slurm.conf

install -d -m 0755 "$run" "$state" || exit 0
exec >>"$run/slurm.log" 2>&1
if [ -d /run/systemd/system ] && systemctl cat "ranklogd@$uid.socket" >/dev/null 2>&1; then
  timeout 5 systemctl start "ranklogd@$uid.socket"
  exit 0
fi
install -d -m 0700 -o "$uid" -g "$gid" "$run/$uid" "$state/$uid" || exit 0
# In a session of its own before this script ends: slurmd kills the script's process group then.
timeout --kill-after=0.5 5 \
  setpriv --reuid="$uid" --regid="$gid" --init-groups --no-new-privs \
  env -i -C / PATH="$PATH" HOME="$(getent passwd "$uid" | cut -d: -f6)" RANKLOG_STARTED_BY=slurm \
  ${SLURM_CONF:+"SLURM_CONF=$SLURM_CONF"} \
  ranklogd --background --listen "unix:$run/$uid/ranklogd.sock" --state-dir "$state/$uid" "${flags[@]}"
code=$?
[ "$code" = 0 ] || echo "$(date +%FT%T) job $SLURM_JOB_ID of user $uid: ranklogd did not start within 5 s (exit code $code)"
exit 0
