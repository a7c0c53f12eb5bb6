#!/bin/bash
# Runs a script of this folder with MLflow's packages. Exit code 77: they are absent (mlflow_python.sh).
#
#   with_mlflow.sh SCRIPT ARGUMENTS...
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
python=$("$here/mlflow_python.sh")
exec "$python" "$here/$@"
