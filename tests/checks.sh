#!/usr/bin/env bash
# The static checks: formatting, and clang's warnings, thread-safety analysis and clang-tidy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
Usage: tests/checks.sh [--format] [--clang] [--fix]

  --format  clang-format agrees with every source file
  --clang   clang-tidy (.clang-tidy) and clang's thread-safety analysis, on all but trainer/: clang 14 cannot read
            LibTorch 1.13's headers in C++20
  --fix     let clang-format rewrite the files

Without an argument: --format and --clang.
TEXT
}

format=no clang=no fix=no
[ $# -gt 0 ] || { format=yes; clang=yes; }
for argument in "$@"; do
  case "$argument" in
    --format) format=yes ;;
    --clang) clang=yes ;;
    --fix) fix=yes ;;
    -h | --help) usage; exit 0 ;;
    *) echo "checks.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

sources() { git -c safe.directory='*' ls-files --cached --others --exclude-standard -- '*.cc' '*.h' | while read -r file; do [ -f "$file" ] && echo "$file"; done; }

if [ "$fix" = yes ]; then sources | xargs clang-format -i; fi
if [ "$format" = yes ]; then
  sources | xargs clang-format --dry-run -Werror
  echo "clang-format: $(sources | wc -l) files agree"
fi

if [ "$clang" = yes ]; then
  cmake -S . -B build/clang -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=clang++ -DRANKLOG_TRAINER=OFF -DRANKLOG_BENCHMARKS=OFF >/dev/null
  ninja -C build/clang --quiet ranklog_proto
  sources | grep -E '^(client|service)/.*\.cc$' | grep -v '^client/example.cc$' >build/clang/files
  xargs -P "$(nproc)" -n 4 clang-tidy -p build/clang --quiet <build/clang/files 2>/dev/null
  echo "clang-tidy: $(wc -l <build/clang/files) files pass"
fi
