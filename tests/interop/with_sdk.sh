#!/bin/bash
# Runs a script of this folder with the official W&B SDK. Exit code 77: the SDK is absent (wandb_python.sh).
#
#   with_sdk.sh SCRIPT ARGUMENTS...
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
python=$("$here/wandb_python.sh")
exec "$python" "$here/$@"
