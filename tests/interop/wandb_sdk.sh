#!/bin/bash
# Compares our delivery with the official SDK against the fake server. Makes the SDK's virtual environment on first use, for all
# clones: $XDG_CACHE_HOME/ranklog/wandb-VERSIONS (~/.cache).
# Exit code 77: no SDK here and no way to install it; where CI is set that is a failure.
#
#   wandb_sdk.sh FAKE_WANDB DELIVER_RUN
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=0.31.0
python=$(python3 -c 'import platform; print(platform.python_version())') || python=none
venv=${XDG_CACHE_HOME:-${HOME:?}/.cache}/ranklog/wandb-${version}_python-$python

mkdir -p "$venv"
exec 9>"$venv/lock"
flock 9
if [[ ! -e $venv/installed ]]; then
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "wandb==$version"; }; then
    echo "wandb $version cannot be installed (python3-venv, and a package index, are needed)"
    [[ -n ${CI:-} ]] && exit 1
    exit 77
  fi
  touch "$venv/installed"
fi
exec 9>&-
exec "$venv/bin/python" "$here/compare.py" "$@"
