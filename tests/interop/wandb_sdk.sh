#!/bin/bash
# Compares our delivery with the official SDK against the fake server. Exit code 77: the SDK is absent (venv.sh).
#
#   wandb_sdk.sh FAKE_WANDB DELIVER_RUN
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=0.31.0
python=$("$here/venv.sh" "wandb-$version" "wandb==$version")
exec "$python" "$here/compare.py" "$@"
