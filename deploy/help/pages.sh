#!/usr/bin/env bash
# Makes the man page and the shell completions of a program from the --help of the program and of its subcommands.
#   deploy/help/pages.sh PROGRAM VERSION FOLDER
# FOLDER gets the files in the layout of share/. The build calls this; see ranklog_program().
set -euo pipefail
program=$1 version=$2 folder=$3
name=$(basename "$program")
here=$(dirname "${BASH_SOURCE[0]}")

mkdir -p "$folder"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
help=$(
  "$program" --help
  "$program" --help | awk '/^[A-Z]/ { list = /^Subcommands:$/ } list && /^  [a-z]/ { print $1 }' |
    while read -r command; do
      printf '\f%s\n' "$command" # what parse.awk takes for the beginning of a subcommand
      "$program" "$command" --help
    done
)
# make FORMAT FILE
make() {
  awk -v program="$name" -v version="$version" -f "$here/parse.awk" -f "$here/$1.awk" <<<"$help" >"$folder/$2"
}
make man "man/man1/$name.1"
make bash "bash-completion/completions/$name"
make zsh "zsh/site-functions/_$name"
make fish "fish/vendor_completions.d/$name.fish"
