#!/bin/bash
# An Epilog of Slurm: gives the user's ranklogd on this node time to deliver, if the site wants that. Without
# `drain` in /etc/ranklog/slurm.conf it does nothing: the daemon goes on without the job. It never fails.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec </dev/null >/dev/null 2>&1

run=/run/ranklog
uid=$SLURM_JOB_UID
drain=0 # seconds; the node takes no other job meanwhile. Keep it below PrologEpilogTimeout
# shellcheck source=/dev/null
[ ! -r /etc/ranklog/slurm.conf ] || . /etc/ranklog/slurm.conf
[ "$drain" != 0 ] || exit 0

exec >>"$run/slurm.log" 2>&1
timeout --kill-after=0.5 "$drain" \
  setpriv --reuid="$uid" --regid="$SLURM_JOB_GID" --init-groups --no-new-privs env -C / \
  ranklog sync --wait --address "unix:$run/$uid/ranklogd.sock" >/dev/null
exit 0
