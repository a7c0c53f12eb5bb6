#!/bin/bash
# Prints the python of a virtual environment with the official W&B SDK, and with Pillow, which reads its images. Exit
# code 77: no SDK here (venv.sh).
set -euo pipefail
version=0.31.0
pillow=13.0.0
exec "$(dirname "$0")/venv.sh" "wandb-${version}_pillow-$pillow" "wandb==$version" "pillow==$pillow"
