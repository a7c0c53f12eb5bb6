#!/bin/bash
# Prints the python of a virtual environment with chDB, ClickHouse's engine as a package. Exit code 77: it is absent (venv.sh).
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
version=4.4.0
core=26.9.0  # its engine calls itself 26.9.2.1
exec "$here/venv.sh" "chdb-$version-$core" "chdb==$version" "chdb-core==$core"
