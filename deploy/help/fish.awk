# The completion for fish.

function quoted(words) {
  gsub(/\\/, "\\\\", words)
  gsub(/'/, "\\'", words)
  return "'" words "'"
}

function print_entries(c, condition,   e, id, n, list, i, line) {
  for (e = 1; e <= entries[c]; ++e) {
    id = c "," e
    if (group[id] == "Positionals" || common(id)) continue
    line = "complete -c " program condition
    n = split(names[id], list, ",")
    for (i = 1; i <= n; ++i) line = line (list[i] ~ /^--/ ? " -l " substr(list[i], 3) : " -s " substr(list[i], 2))
    if (choices[id] != "") line = line " -x -a " quoted(choices[id])
    else if (type[id] == "DIR") line = line " -x -a '(__fish_complete_directories)'"
    else if (type[id] ~ /FILE|PATH/) line = line " -r -F"
    else if (type[id] != "") line = line " -x"
    print line " -d " quoted(brief(text[id]))
  }
}

END {
  print "# Made from `" program " --help`."
  print_entries(0, "")
  for (c = 1; c <= commands; ++c) {
    print "complete -c " program " -n __fish_use_subcommand -f -a " command[c] " -d " quoted(brief(summary[command[c]]))
    print_entries(c, " -n '__fish_seen_subcommand_from " command[c] "'")
  }
}
