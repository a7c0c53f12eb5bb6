#!/usr/bin/env bash
# The static checks: formatting, and clang's warnings, thread-safety analysis and clang-tidy.
set -euo pipefail
CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tests/checks.sh [--format] [--clang [--all]] [--fix]

  --format  clang-format agrees with every source file, no test skips without SKIP_WITHOUT, none is DISABLED_ without a date, and
            no script with pipefail has a pipe whose reader stops early
  --clang   clang-tidy (.clang-tidy) on client/ and service/, a folder at a time. Skips unchanged folders that passed before
  --all     with --clang: all sources, each by itself. Takes many times as long, and also finds missing #includes, and unused
            using-declarations and constants
  --fix     let clang-format rewrite the files; git diff shows the changes

Without an argument: --format and --clang. Successes are cached in $XDG_CACHE_HOME/ranklog (~/.cache/ranklog).
TEXT
}

wrong() { echo "checks.sh: $1" >&2; usage >&2; exit 2; }

format=no clang=no fix=no all=no
[ $# -gt 0 ] || { format=yes; clang=yes; }
for argument in "$@"; do
  case "$argument" in
    --format) format=yes ;;
    --clang) clang=yes ;;
    --all) all=yes ;;
    --fix) fix=yes ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "unknown argument '$argument'" ;;
  esac
done
[ "$all" = no ] || [ "$clang" = yes ] || wrong "--all goes with --clang"

# need PROGRAM...: exits with a message if a program is missing.
need() {
  for program in "$@"; do
    command -v "$program" >/dev/null || { echo "checks.sh: $program not found; deploy/install-deps.sh --tests installs it" >&2; exit 1; }
  done
}
[ "$format$fix" = nono ] || need git clang-format
[ "$clang" = no ] || need cmake ninja clang++ clang-tidy python3

# The existing sources, each followed by a NUL.
sources() {
  git -c safe.directory='*' ls-files -z --cached --others --exclude-standard -- '*.cc' '*.h' |
    while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done
}

if [ "$fix" = yes ]; then sources | xargs -0 clang-format -i; fi
if [ "$format" = yes ]; then
  sources | xargs -0 clang-format --dry-run -Werror
  echo "clang-format: $(sources | tr -dc '\0' | wc -c) files agree"
  if grep -rl --include='*.cc' --include='*.h' GTEST_SKIP tests | grep -v '^tests/support/absent.h$'; then
    echo "checks.sh: these tests would skip in CI, too; use SKIP_WITHOUT of tests/support/absent.h" >&2
    exit 1
  fi
  if grep -rn --include='*.cc' --include='*.h' DISABLED_ tests | grep -v -E '// .*20[0-9]{2}-[0-9]{2}'; then
    echo "checks.sh: a disabled test needs a date and a reason in its line: // 2026-01-31: why" >&2
    exit 1
  fi
  # A writer that is not done when `head` ends gets SIGPIPE, and the script ends with 141, though only sometimes.
  if git -c safe.directory='*' grep -l -E '^set -.*pipefail' -- ':!*.md' | xargs grep -n -E '\|[[:space:]]*(head|grep -[a-zA-Z]*q)([[:space:]]|$)'; then
    echo "checks.sh: with pipefail the reader of a pipe must read everything: sed -n 1p for head, and [[ ... == *word* ]] for grep -q" >&2
    exit 1
  fi
fi

# tidy FILE: runs clang-tidy on a source of build/clang, unless it passed before with the same command, program and checks,
# and the same content of all files that it reads. The path of this clone does not count.
tidy() {
  local file=$1 key
  key=$({
    python3 -c 'import hashlib, json, os, shlex, subprocess, sys
command = next(c for c in json.load(open("build/clang/compile_commands.json")) if os.path.relpath(c["file"]) == sys.argv[1])
words = shlex.split(command["command"])
words[words.index("-o") + 1] = "-"
read = subprocess.run(words + ["-M"], cwd=command["directory"], stdout=subprocess.PIPE, text=True)
if read.returncode: sys.exit(1)
print([word.replace(os.getcwd(), "") for word in words])
for name in shlex.split(read.stdout.replace("\\\n", " "))[1:]:
    path = os.path.join(command["directory"], name)
    print(os.path.relpath(path) if path.startswith(os.getcwd()) else path, hashlib.sha256(open(path, "rb").read()).hexdigest())' "$file" &&
      clang-tidy --version &&
      cat .clang-tidy
  } | sha256sum | cut -d ' ' -f 1)
  [ ! -e "$passed/$key" ] || { touch "$passed/$key"; return 0; }
  clang-tidy -p build/clang --quiet "$file" 2>/dev/null
  touch "$passed/$key"
}

if [ "$clang" = yes ]; then
  unity=ON
  [ "$all" = no ] || unity=OFF
  # clang-tidy ignores a .clang-tidy that it cannot parse, and uses the default checks.
  clang-tidy --config-file=.clang-tidy --dump-config >/dev/null
  cmake --fresh -S . -B build/clang -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=clang++ -DRANKLOG_TRAINER=OFF -DRANKLOG_TESTS=OFF \
    -DRANKLOG_UNITY=$unity -DRANKLOG_BATCH=0 >/dev/null
  ninja -C build/clang --quiet proto/ranklog/v1/ranklog.pb.h proto/wandb/wandb_internal.pb.h service/ui/embedded.cc
  python3 -c 'import json, os
for command in json.load(open("build/clang/compile_commands.json")): print(os.path.relpath(command["file"]))' |
    grep -E '^(build/clang/)?(client|service)/' | grep -v '^client/example.cc$' >build/clang/files
  if [ "$all" = yes ]; then
    xargs -P "$(nproc)" -n 4 clang-tidy -p build/clang --quiet <build/clang/files 2>/dev/null
    echo "clang-tidy: $(wc -l <build/clang/files) files pass"
  else
    passed=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/ranklog/clang-tidy
    mkdir -p "$passed"
    find "$passed" -type f -mtime +30 -delete
    export passed
    export -f tidy
    xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'tidy "$1"' _ {} <build/clang/files
    echo "clang-tidy: $(wc -l <build/clang/files) folders pass"
  fi
fi
