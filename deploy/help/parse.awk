# Reads the --help (in CLI11's format) of a program and of its subcommands. Each begins with a form feed and its name.
# Fills these arrays, where C is 0 for the program, else the number of a subcommand:
#   commands, command[C], about[C], usage[C], footer[C]
#   entries[C]; of each entry E, "C,E": group, names ("-o,--output" or "RUN"), type ("" of a flag), choices ("a b"),
#   range, preset (the default), text
# A line of options is "  NAMES TYPE", with the text from column 30 on, or in the next line.

function keep() { # the entry that was read last
  if (left == "") return
  sub(/ +$/, "", left)
  match(left " ", / /)
  names[id] = substr(left, 1, RSTART - 1)
  rest = substr(left, RSTART + 1)
  sub(/ *Excludes: .*/, "", rest)
  sub(/ *\(Env:[^)]*\)/, "", rest)
  sub(/ *REQUIRED/, "", rest)
  sub(/ \.\.\.$/, "", rest)
  if (match(rest, /=[^=]*$/)) {
    preset[id] = substr(rest, RSTART + 1)
    rest = substr(rest, 1, RSTART - 1)
  }
  if (match(rest, /:\{.*\}$/)) {
    choices[id] = substr(rest, RSTART + 2, RLENGTH - 3)
    gsub(/,/, " ", choices[id])
    rest = substr(rest, 1, RSTART - 1)
  } else if (match(rest, /:[A-Z]+ in \[.*\]$/)) {
    range[id] = substr(rest, RSTART, RLENGTH)
    gsub(/.*\[|\]$/, "", range[id])
    sub(/ - /, " to ", range[id])
    rest = substr(rest, 1, RSTART - 1)
  }
  type[id] = rest
  left = ""
}

# The first line of a text, for completions.
function brief(words) {
  sub(/( \[|; |\. |, e\.g\.).*/, "", words)
  gsub(/\[/, "(", words)
  gsub(/\]/, ")", words)
  return words
}

# Whether an entry of a subcommand is also an entry of the program.
function common(id) {
  return id !~ /^0,/ && names[id] == "-h,--help"
}

BEGIN {
  part = "about"
  c = 0
}

/^\f/ {
  keep()
  c = ++commands
  command[c] = substr($0, 2)
  part = "about"
  next
}

part == "about" && /^Usage: / {
  usage[c] = substr($0, 8)
  part = "entries"
  next
}
part == "about" { about[c] = about[c] $0 "\n"; next }

# "Examples:" is not a group, because it contains no options.
part == "entries" && /^[A-Z][a-z]+:$/ { title = $0; next }
part == "entries" && title != "" && title !~ /^(Positionals|Options|Subcommands):$/ && !/^  -/ {
  keep()
  part = "footer"
  footer[c] = title "\n"
  title = ""
}
part == "entries" && title != "" { group_now = title; sub(/:$/, "", group_now); title = "" }
part == "entries" && /^  / && group_now == "Subcommands" { summary[$1] = substr($0, 31); next }
part == "entries" && /^  / {
  if (substr($0, 1, 30) ~ /^ *$/) {
    text[id] = substr($0, 31)
    left = substr(whole, 3)
    next
  }
  keep()
  id = c "," ++entries[c]
  group[id] = group_now
  whole = $0
  left = substr($0, 3, 28)
  text[id] = substr($0, 31)
  next
}
part == "entries" && /./ { keep(); part = "footer" }
part == "footer" { footer[c] = footer[c] $0 "\n" }

END { keep() }
