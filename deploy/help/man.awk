# The man page: writes the arrays of parse.awk as roff.

function roff(words) {
  gsub(/\\/, "\\e", words)
  gsub(/-/, "\\-", words)
  gsub(/`/, "\\(ga", words)
  gsub(/'/, "\\(aq", words)
  gsub(/\^/, "\\(ha", words)
  gsub(/~/, "\\(ti", words)
  sub(/^\./, "\\\\\\&.", words)
  return words
}

# -o,--output FILE: the names are bold, the type is italic.
function term(id,   words) {
  words = "\\fB" roff(names[id]) "\\fR"
  gsub(/,/, "\\fR, \\fB", words)
  return words (type[id] == "" || group[id] == "Positionals" ? "" : " \\fI" roff(type[id]) "\\fR")
}

function print_entries(c,   e, id, words, now) {
  now = "Options"
  for (e = 1; e <= entries[c]; ++e) {
    id = c "," e
    if (group[id] != "Positionals" && group[id] != now) {
      now = group[id]
      print ".SS " now
    }
    words = text[id]
    if (choices[id] != "" || range[id] != "" || preset[id] != "") sub(/[^.]$/, "&.", words)
    if (choices[id] != "") words = words " One of: " choices[id] "."
    if (range[id] != "") words = words " From " range[id] "."
    if (preset[id] != "") words = words " Default: " preset[id] "."
    sub(/^ /, "", words)
    print ".TP\n" term(id) "\n" roff(words)
  }
}

# Paragraphs. A paragraph with an indented line keeps its line breaks. The program's "Examples:" become a section.
function print_text(words, sections,   n, paragraphs, i, paragraph) {
  gsub(/^\n+|\n+$/, "", words)
  n = split(words, paragraphs, /\n\n+/)
  for (i = 1; i <= n; ++i) {
    paragraph = paragraphs[i]
    if (sections && paragraph ~ /^Examples:\n/) {
      print ".SH EXAMPLES"
      sub(/^Examples:\n/, "", paragraph)
    } else {
      print (sections && paragraphs[i - 1] ~ /^Examples:\n/ ? ".SH NOTES" : ".PP")
    }
    if (paragraph ~ /(^|\n)  /) print ".nf"
    print_lines(paragraph)
    if (paragraph ~ /(^|\n)  /) print ".fi"
  }
}

function print_lines(words,   n, lines, i) {
  n = split(words, lines, /\n/)
  for (i = 1; i <= n; ++i) print roff(lines[i])
}

END {
  title = about[0]
  sub(/\.?\n.*/, "", title)
  print ".\\\" Made from `" program " --help`."
  print ".TH " toupper(program) " 1 \"\" \"Ranklog " version "\" \"Ranklog\""
  print ".SH NAME\n" roff(program) " \\- " roff(tolower(substr(title, 1, 1)) substr(title, 2))
  print ".SH SYNOPSIS\n" roff(usage[0])
  print ".SH DESCRIPTION"
  print_lines(substr(about[0], 1, length(about[0]) - 1))
  print ".SH OPTIONS"
  print_entries(0)
  if (commands) print ".SH COMMANDS"
  for (c = 1; c <= commands; ++c) {
    print ".SS \"" roff(usage[c]) "\""
    print_lines(substr(about[c], 1, length(about[c]) - 1))
    print_entries(c)
    print_text(footer[c], 0)
  }
  print_text(footer[0], 1)
}
