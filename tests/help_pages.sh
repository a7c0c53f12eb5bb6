#!/usr/bin/env bash
# Tests the man pages and completions that deploy/help makes. They name each flag of --help, and groff reports no warning.
# bash, zsh and fish complete a subcommand, a flag and its value.
#   tests/help_pages.sh PROGRAM SHARE...     SHARE: the folder of the program's pages; the last program is `ranklog`
set -euo pipefail

fail() { echo "help_pages.sh: $1" >&2; exit 1; }

while [ $# -gt 0 ]; do
  program=$1 share=$2
  name=$(basename "$program")
  page=$share/man/man1/$name.1
  bash=$share/bash-completion/completions/$name
  zsh=$share/zsh/site-functions/_$name
  fish=$share/fish/vendor_completions.d/$name.fish
  shift 2

  warnings=$(LC_ALL=C.UTF-8 groff -ww -man -Tutf8 -z "$page" 2>&1)
  [ -z "$warnings" ] || fail "$page: $warnings"
  help=$("$program" --help)
  commands=$(awk '/^[A-Z]/ { list = /^Subcommands:$/ } list && /^  [a-z]/ { print $1 }' <<<"$help")
  for command in $commands; do help+=$'\n'$("$program" "$command" --help); done
  flags=$(sed -nE 's/^  (-[a-z],)?(--[a-z-]+).*/\2/p' <<<"$help" | sort -u)
  [ "$(wc -w <<<"$flags")" -ge 15 ] || fail "found only these flags of $name: $flags"
  text=$(sed 's/\\-/-/g' "$page")
  for flag in $flags; do
    grep -qE -- "^(.*, )?\\\\fB$flag\\\\fR" <<<"$text" || fail "$page does not name $flag"
    grep -qE -- "[ ']$flag[ ']" "$bash" || fail "$bash does not name $flag"
    grep -qE -- "[ {,*]$flag['},]" "$zsh" || fail "$zsh does not name $flag"
    grep -qE -- " -l ${flag#--} " "$fish" || fail "$fish does not name $flag"
  done
  for command in $commands; do
    grep -q "^\.SS \"ranklog $command " <<<"$text" || fail "$page does not name $command"
  done
done
[ "$name" = ranklog ] || fail "the last program is $name"

# Each of these prints a line as its shell completes it, if the user presses Tab after each word.
in_bash() {
  bash --norc -c 'source "$1"; shift
    words=()
    for word; do
      COMP_WORDS=("${words[@]}" "$word") COMP_CWORD=${#words[@]} COMPREPLY=("$word")
      [ ${#words[@]} = 0 ] || _ranklog
      words+=("${COMPREPLY[*]}")
    done
    echo "${words[*]}"' _ "$bash" "$@"
}
in_fish() {
  fish --no-config -c 'source $argv[1]
    set words $argv[2]
    for word in $argv[3..]
      set -a words (complete -C "$words $word" | string split -f 1 \t | string join ,)
    end
    echo "$words"' "$fish" "$@"
}
# zsh completes only in its line editor.
in_zsh() {
  local line
  line=$(printf '%s\t ' "${@:2}")
  zsh -f -c 'zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1= PS2=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; ranklog() { print -r -- \"DONE[ranklog \$*]\" }; print REA\"DY\""
    zpty -r shell output "*READY*"
    zpty -w shell "ranklog $2"
    zpty -r shell output "*DONE\[*\]*"
    print -r -- ${${output#*DONE\[}%%\]*}' _ "$(dirname "$zsh")" "$line"
}
for shell in bash zsh fish; do
  if ! command -v $shell >/dev/null; then
    [ -z "${CI:-}" ] || fail "$shell not found; deploy/install-deps.sh --tests installs it"
    echo "$shell is absent: not tried"
    continue
  fi
  made=$("in_$shell" ranklog exp --form c | tr -s ' ')
  [ "${made% }" = "ranklog export --format csv" ] || fail "$shell completes 'exp', '--form' and 'c' as: $made"
done
