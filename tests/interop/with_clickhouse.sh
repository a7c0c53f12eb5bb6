#!/bin/bash
# Runs a script of this folder with ClickHouse's engine. Exit code 77: it is absent (clickhouse_python.sh).
#
#   with_clickhouse.sh SCRIPT ARGUMENTS...
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
python=$("$here/clickhouse_python.sh")
exec "$python" "$here/$@"
