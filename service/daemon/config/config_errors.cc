#include "service/daemon/config/config_errors.h"

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/suggestion.h"

namespace ranklog::daemon {
namespace {

// Describes an error in the file itself. CLI11 reports every file as INI.
std::string AboutFile(const CLI::App& app, const LinedConfig& lines,
                      const CLI::ConfigError& error) {
  const std::string file = app.get_config_ptr()->as<std::string>();
  const std::string what = error.what();
  absl::string_view key = absl::string_view(what.data(), what.size());
  if (!absl::ConsumePrefix(&key, "INI was not able to parse ")) {
    const absl::string_view separator = absl::StartsWith(key, ":") ? "" : ": ";  // :LINE: why
    return absl::StrCat("ranklogd: ", file, separator, key, "\n");
  }
  const std::string suggestion = DidYouMean(key, SettingsOf(app));
  return absl::StrCat("ranklogd: ", file, ":", lines.LineOf(std::string(key)), ": unknown option '",
                      key, "'", suggestion.empty() ? ";" : suggestion,
                      " use the options of `ranklogd --help`, without the dashes\n");
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

// A suggestion for an unknown flag; else empty.
std::string Suggestion(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return "";
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty() || !absl::StartsWith(extras.front(), "--")) return "";
  std::vector<std::string> flags;
  for (const std::string& name : SettingsOf(app)) flags.push_back("--" + name);
  return DidYouMean(extras.front().substr(0, extras.front().find('=')), flags);
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
  const auto* const in_file = dynamic_cast<const CLI::ConfigError*>(&error);
  parsed.text = in_file != nullptr
                    ? AboutFile(app, file, *in_file)
                    : absl::StrCat("ranklogd: ", WithSource(app, file, args, error.what()),
                                   Suggestion(app, error), "; see `ranklogd --help`\n");
  return parsed;
}

}  // namespace ranklog::daemon
