# The completion for zsh, by its _arguments.

function quoted(words) {
  gsub(/'/, "'\\''", words)
  return "'" words "'"
}

function value(id) {
  if (choices[id] != "") return "(" choices[id] ")"
  if (type[id] == "DIR") return "_files -/"
  return type[id] ~ /FILE|PATH/ || names[id] ~ /FILE|PATH/ ? "_files" : "()"
}

# '(-o --output)'{-o,--output}'[a file]:FILE:_files'
function print_specs(c, indent,   e, id, spec, all) {
  for (e = 1; e <= entries[c]; ++e) {
    id = c "," e
    if (common(id)) continue
    if (group[id] == "Positionals") {
      print indent quoted("*:" names[id] ":" value(id))
      continue
    }
    spec = "[" brief(text[id]) "]"
    if (type[id] != "") spec = spec ":" type[id] ":" value(id)
    gsub(/unix:PATH:/, "unix\\:PATH:", spec)
    all = names[id]
    gsub(/,/, " ", all)
    if (text[id] ~ /several times/) print indent "\\*" names[id] quoted(spec)
    else if (names[id] ~ /,/) print indent "'(" all ")'{" names[id] "}" quoted(spec)
    else print indent names[id] quoted(spec)
  }
}

END {
  name = "_" program
  gsub(/-/, "_", name)
  print "#compdef " program "\n# Made from `" program " --help`.\n" name "() {"
  print "  local curcontext=$curcontext state line\n  local -a globals commands\n  globals=("
  print_specs(0, "    ")
  print "  )"
  if (commands) {
    print "  commands=("
    for (c = 1; c <= commands; ++c) print "    " quoted(command[c] ":" brief(summary[command[c]]))
    print "  )"
    print "  _arguments -C $globals '1:command:->command' '*::argument:->argument' && return"
    print "  case $state in"
    print "    command) _describe command commands ;;"
    print "    argument)\n      case $line[1] in"
    for (c = 1; c <= commands; ++c) {
      print "        " command[c] ")\n          local -a own=("
      print_specs(c, "            ")
      print "          )\n          _arguments $own $globals ;;"
    }
    print "      esac ;;\n  esac"
  } else {
    print "  _arguments $globals"
  }
  print "}\nif [ \"$funcstack[1]\" = _" program " ]; then " name " \"$@\"; else compdef " name " " program "; fi"
}
