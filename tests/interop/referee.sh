#!/bin/bash
# Runs the referee (README.md). Exit code 77: the SDK is absent (wandb_python.sh).
#
#   referee.sh FAKE_WANDB RANKLOGD RANKLOG_SCENARIOS GROUP [SCENARIO...]
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
python=$("$here/wandb_python.sh")
exec "$python" "$here/referee.py" "$@"
