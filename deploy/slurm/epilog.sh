#!/bin/bash
# An Epilog of Slurm: if the site sets `drain` in /etc/ranklog/slurm.conf, waits while the user's ranklogd on this node
# delivers. Otherwise it does nothing, and the daemon continues without the job. It never fails.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec </dev/null >/dev/null 2>&1

run=/run/ranklog
uid=$SLURM_JOB_UID
drain=0 # whole seconds; the node takes no other job meanwhile. Keep it below PrologEpilogTimeout
# shellcheck source=/dev/null
[ ! -r /etc/ranklog/slurm.conf ] || . /etc/ranklog/slurm.conf

[ "$drain" != 0 ] || exit 0
# Not a link, and writable by nobody else, because the prolog made it.
[[ $(stat -c '%u %A' "$run") =~ ^0\ d....-..-.$ ]] || exit 0
exec >>"$run/slurm.log" 2>&1
if [[ ! $drain =~ ^[0-9]+$ ]]; then
  echo "$(date +%FT%T) job $SLURM_JOB_ID of user $uid: drain=$drain is not a number of whole seconds: no wait for delivery"
  exit 0
fi
((10#$drain > 0)) || exit 0 # `timeout 0` has no limit
timeout --kill-after=0.5 "$drain" \
  setpriv --reuid="$uid" --regid="$SLURM_JOB_GID" --init-groups --no-new-privs env -C / \
  ranklog sync --wait --slurm-job "$SLURM_JOB_ID" --address "unix:$run/$uid/ranklogd.sock" >/dev/null
exit 0
