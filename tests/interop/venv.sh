#!/bin/bash
# Prints the python of a virtual environment with pip packages. Makes it on first use, for all clones, in
# $XDG_CACHE_HOME/ranklog/NAME_python-VERSION (~/.cache). NAME contains the packages' versions. Exit code 77: the
# packages are absent and cannot be installed; a failure if CI is set.
#
#   venv.sh NAME PACKAGE==VERSION...
#
# PYTHON is the interpreter (default: python3), VENV_OPTIONS are more options of its module venv.
set -euo pipefail
name=$1
shift
python=${PYTHON:-python3}
version=$("$python" -c 'import platform; print(platform.python_version())') || version=none
venv=${XDG_CACHE_HOME:-${HOME:?}/.cache}/ranklog/${name}_python-$version

mkdir -p "$venv"
exec 9>"$venv/lock"
flock 9
if [[ ! -e $venv/installed ]]; then
  # shellcheck disable=SC2086  # several options
  if ! { "$python" -m venv ${VENV_OPTIONS:-} "$venv" && "$venv/bin/pip" install --quiet "$@"; } >&2; then
    echo "$* cannot be installed (python3-venv, and a package index, are needed)" >&2
    [[ -n ${CI:-} ]] && exit 1
    exit 77
  fi
  touch "$venv/installed"
fi
echo "$venv/bin/python"
