#!/bin/bash
# Prints the python of a virtual environment with the official W&B SDK. Exit code 77: no SDK here (venv.sh).
set -euo pipefail
version=0.31.0
exec "$(dirname "$0")/venv.sh" "wandb-$version" "wandb==$version"
