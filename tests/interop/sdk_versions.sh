#!/bin/bash
# Runs sdk_sync.py on runs that older versions of the SDK made. By hand: each version is an installation of its own.
#
#   sdk_versions.sh FAKE_WANDB RANKLOG [VERSION...]
set -euo pipefail
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
fake=$1
ranklog=$2
shift 2
failed=0
for version in ${@:-0.16.6 0.17.9 0.19.11 0.21.4 0.24.2}; do
  python=$("$here/venv.sh" "wandb-$version" "wandb==$version" pillow==11.0.0 'setuptools<80' 'numpy<2')
  echo "== $version"
  "$here/with_sdk.sh" sdk_sync.py "$fake" "$ranklog" "$python" || failed=1
done
exit "$failed"
