#!/bin/bash
# Compares our delivery with the official SDK against the fake server. Makes the SDK's virtual environment on first use.
# Exit code 77: no SDK here and no way to install it; where CI is set that is a failure.
#
#   wandb_sdk.sh VENV FAKE_WANDB DELIVER_RUN
set -euo pipefail
venv=$1 fake=$2 deliver=$3
here=$(cd "$(dirname "$0")" && pwd)
version=0.31.0

if [[ ! -e $venv/installed-$version ]]; then
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "wandb==$version"; }; then
    echo "wandb $version cannot be installed (python3-venv, and a package index, are needed)"
    [[ -n ${CI:-} ]] && exit 1
    exit 77
  fi
  touch "$venv/installed-$version"
fi
exec "$venv/bin/python" "$here/compare.py" "$fake" "$deliver"
