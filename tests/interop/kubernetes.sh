#!/bin/bash
# Checks the manifests of deploy/kubernetes against the schemas of Kubernetes, with kubernetes-validate, which contains
# them. Makes its virtual environment on first use, for all clones, in
# $XDG_CACHE_HOME/ranklog/kubernetes-validate-VERSIONS (~/.cache). Each flag of ranklogd and ranklog in the manifests
# must be one that the program has. Exit code 77: it is absent and cannot be installed; a failure if CI is set.
#
#   kubernetes.sh RANKLOGD RANKLOG
set -euo pipefail
manifests=$(CDPATH= cd "$(dirname "$0")/../../deploy/kubernetes" && pwd)
version=1.33.1
python=$(python3 -c 'import platform; print(platform.python_version())') || python=none
venv=${XDG_CACHE_HOME:-${HOME:?}/.cache}/ranklog/kubernetes-validate-${version}_python-$python

mkdir -p "$venv"
exec 9>"$venv/lock"
flock 9
if [[ ! -e $venv/installed ]]; then
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet "kubernetes-validate==$version"; }; then
    echo "kubernetes-validate $version cannot be installed (python3-venv, and a package index, are needed)"
    [[ -n ${CI:-} ]] && exit 1
    exit 77
  fi
  touch "$venv/installed"
fi
exec 9>&-

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
validate() { "$venv/bin/kubernetes-validate" --strict -k "$1" "${@:2}"; }

failed=0
for kubernetes in 1.29.0 1.33.0; do
  validate "$kubernetes" "$manifests"/*.yaml || failed=1
done
# The validator must reject a misspelt sidecar.
sed 's/restartPolicy: Always/restartPolicyy: Always/' "$manifests/sidecar.yaml" >"$scratch/wrong.yaml"
if cmp -s "$manifests/sidecar.yaml" "$scratch/wrong.yaml" || validate 1.33.0 "$scratch/wrong.yaml" >"$scratch/out" 2>&1; then
  echo "kubernetes-validate takes a misspelt restartPolicy, or sidecar.yaml has none"
  failed=1
fi

"$venv/bin/python" - "$manifests" "$@" <<'PYTHON' || failed=1
import glob, os, re, subprocess, sys
import yaml

def commands(node):
    if isinstance(node, dict):
        if isinstance(node.get("command"), list):
            yield [str(word) for word in node["command"]]
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from commands(each)

checked = 0
for path in glob.glob(sys.argv[1] + "/*.yaml"):
    for document in yaml.safe_load_all(open(path)):
        for command in commands(document):
            for program in (p for p in sys.argv[2:] if os.path.basename(p) == command[0]):
                subcommand = [word for word in command[1:2] if not word.startswith("-")]
                text = subprocess.run([program, *subcommand, "--help"], capture_output=True, text=True, check=True).stdout
                for flag in re.findall(r"--[a-z-]+", " ".join(command[1:])):
                    checked += 1
                    if not re.search(r"(^|[ ,])" + flag + r"\b", text, re.MULTILINE):
                        sys.exit(f"{path}: {' '.join([command[0], *subcommand])} has no flag {flag}")
if checked < 10:
    sys.exit(f"found only {checked} flags: are the commands' names still right?")
PYTHON
exit "$failed"
