#!/usr/bin/env bash
# Makes store_version1.sql: a dump of a store that a real ranklogd wrote, for tests that open it with today's program.
# It was run once, with the program that introduced version 1, and the dump never changes. For a later version, copy
# this file and make a dump of that version too.
#
#   tests/service/storage/make_store_version1.sh build/release > tests/service/storage/store_version1.sql
#
# It has these runs, all for a W&B server that never answered:
#   first     two ranks of 30 rows each; it ended
#   again     50 rows, then a start that continues at step 40 with 50 rows: 40 rows, 10 replays and 40 rows
#   killed    30 rows or a few more, of a rank that was killed
set -euo pipefail
build=$(realpath "$1")
dir=$(mktemp -d)
trap 'kill "$daemon" 2>/dev/null; rm -rf "$dir"' EXIT
export RANKLOG_STATE_DIR=$dir/state RANKLOG_ADDRESS=unix:$dir/d.sock RANKLOG_SPOOL_DIR=$dir RANKLOG_START_DAEMON=0 RANKLOG_QUIET=1
export RANKLOG_PROJECT=test RANKLOG_DESTINATIONS=wandb WANDB_BASE_URL=http://127.0.0.1:9 HOME=$dir
unset WANDB_API_KEY
rank=$build/tests/integration/logging_rank
[ -x "$rank" ] || rank=$(find "$build" -name logging_rank -type f -print -quit)
"$build/bin/ranklogd" 2>"$dir/log" &
daemon=$!
until [ -S "$dir/d.sock" ]; do sleep 0.05; done
env RANKLOG_RUN_ID=first RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "$rank" 30 0 20000 >&2 &
env RANKLOG_RUN_ID=first RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "$rank" 30 0 20000 >&2
wait $!
for first_step in 0 40; do
  env RANKLOG_RUN_ID=again RANKLOG_RESUME=allow "$rank" 50 0 0 none-yet "$first_step" >&2
done
env RANKLOG_RUN_ID=killed "$rank" 1000 0 20000 >&2 &
until [ "$(sqlite3 "$dir/state/ranklog.db" "SELECT rows >= 30 FROM run WHERE run_id = 'killed'")" = 1 ]; do sleep 0.05; done
kill -9 $!
until [[ $("$build/bin/ranklog" runs) == *crashed* ]]; do sleep 0.05; done
kill "$daemon"
wait "$daemon" || true
echo "-- A store of version 1 of the format, as sqlite3's .dump gave it: see make_store_version1.sh."
for pragma in application_id user_version; do
  echo "PRAGMA $pragma = $(sqlite3 "$dir/state/ranklog.db" "PRAGMA $pragma");"
done
sqlite3 "$dir/state/ranklog.db" .dump
