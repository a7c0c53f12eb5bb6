# The completion for bash: the candidates depend on the subcommand and on the previous word.

function words_of(c,   e, words) {
  for (e = 1; e <= entries[c]; ++e) {
    if (group[c "," e] != "Positionals" && !common(c "," e)) words = words " " names[c "," e]
  }
  gsub(/,/, " ", words)
  return words
}

# The cases "COMMAND NAME" of options with a value: options with choices, or those without.
function values_of(c,   e, id, patterns) {
  for (e = 1; e <= entries[c]; ++e) {
    id = c "," e
    if (type[id] == "" || group[id] == "Positionals") continue
    patterns = names[id]
    gsub(/,/, " | " (c ? command[c] : "*") ",", patterns)
    print "    " (c ? command[c] : "*") "," patterns ") words='" choices[id] "' ;;"
  }
}

END {
  name = "_" program
  gsub(/-/, "_", name)
  for (e = 1; e <= entries[0]; ++e) if (type["0," e] != "") takes_value = takes_value " | " names["0," e]
  gsub(/,/, " | ", takes_value)
  print "# Made from `" program " --help`.\n" name "() {"
  print "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= words i"
  print "  if [ \"$word\" = = ]; then word=; elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi"
  if (commands) {
    print "  for ((i = 1; i < COMP_CWORD; ++i)); do"
    print "    case ${COMP_WORDS[i]} in"
    print "      " substr(takes_value, 4) ") ((++i)) ;;"
    print "      -*) ;;"
    print "      *) command=${COMP_WORDS[i]}; break ;;"
    print "    esac\n  done"
  }
  print "  case $command,$before in"
  for (c = 0; c <= commands; ++c) values_of(c)
  print "    *)\n      case $command in"
  for (c = 1; c <= commands; ++c) print "        " command[c] ") words='" substr(words_of(c) words_of(0), 2) "' ;;"
  for (c = 1; c <= commands; ++c) names_of_commands = names_of_commands " " command[c]
  print "        '') words='" substr(names_of_commands words_of(0), 2) "' ;;"
  print "      esac ;;\n  esac"
  print "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}"
  print "complete -o default -F " name " " program # without a match: files
}
