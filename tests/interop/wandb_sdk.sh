#!/bin/bash
# Compares our delivery with the official SDK against the fake server. Exit code 77: the SDK is absent (wandb_python.sh).
#
#   wandb_sdk.sh FAKE_WANDB DELIVER_RUN
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
python=$("$here/wandb_python.sh")
exec "$python" "$here/compare.py" "$@"
