#include "service/daemon/config/config_errors.h"

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/text/suggestion.h"

namespace ranklog::daemon {
namespace {

// Describes an error in the file itself.
std::string AboutFile(const CLI::App& app, const CLI::ConfigError& error) {
  const absl::string_view what = error.what();
  const absl::string_view separator = absl::StartsWith(what, ":") ? "" : ": ";  // :LINE: why
  return absl::StrCat("ranklogd: ", app.get_config_ptr()->as<std::string>(), separator, what, "\n");
}

// The error, with the source of the value instead of the flag that CLI11 names.
std::string WithSource(const CLI::App& app, const LinedConfig& file,
                       const std::vector<std::string>& args, absl::string_view what) {
  for (const std::string& name : SettingsOf(app)) {
    const std::string flag = "--" + name;
    std::string why;
    if (absl::ConsumePrefix(&what, "Could not convert: " + flag + " = ")) {
      why = absl::StrCat("'", what, "' is not true or false");
    } else if (absl::ConsumePrefix(&what, flag + ": ")) {
      why = std::string(what);
    } else {
      continue;
    }
    const std::string source = SourceOf(app, file, args, name);
    const bool in_file = absl::StrContains(source, ":");
    return absl::StrCat(source.empty() ? flag : source, in_file ? ": " + name : "", ": ", why);
  }
  return std::string(what);
}

// Names the first argument that is not understood, with a suggestion for an unknown flag.
std::string AboutExtras(const CLI::App& app) {
  const std::string word = NotUnderstood(app.remaining());
  if (word[0] != '-') return absl::StrCat("unexpected '", word, "'");
  std::vector<std::string> flags;
  for (const std::string& name : SettingsOf(app)) flags.push_back("--" + name);
  return absl::StrCat("unknown option '", word, "'",
                      DidYouMean(word.substr(0, word.find('=')), flags));
}

}  // namespace

Parsed TextOf(const CLI::App& app, const LinedConfig& file, const std::vector<std::string>& args,
              const CLI::ParseError& error) {
  Parsed parsed;
  if (error.get_exit_code() == 0) {
    std::ostringstream out;
    parsed.exit_code = app.exit(error, out, out);
    parsed.text = out.str();
    return parsed;
  }
  parsed.exit_code = 2;
  if (const auto* const in_file = dynamic_cast<const CLI::ConfigError*>(&error)) {
    parsed.text = AboutFile(app, *in_file);
    return parsed;
  }
  const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const std::string what = extras ? AboutExtras(app) : WithSource(app, file, args, error.what());
  parsed.text = absl::StrCat("ranklogd: ", what, absl::EndsWith(what, "?") ? "" : ";",
                             " see `ranklogd --help`\n");
  return parsed;
}

}  // namespace ranklog::daemon
