#!/bin/bash
# Prints the python of a virtual environment with the MLflow server and its basic authentication. Exit code 77: it is absent (venv.sh).
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
version=3.17.2
exec "$here/venv.sh" "mlflow-auth-$version" "mlflow[auth]==$version"
