#include "service/daemon/config_errors.h"

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

// Describes an error in the file itself. CLI11 reports every file as INI, and an unknown section as
// a key that ends in "++".
std::string AboutFile(const CLI::App& app, const LinedConfig& lines,
                      const CLI::ConfigError& error) {
  std::string file = app.get_config_ptr()->as<std::string>();
  const std::string what = error.what();
  absl::string_view key = absl::string_view(what.data(), what.size());
  if (!absl::ConsumePrefix(&key, "INI was not able to parse ")) {
    return absl::StrCat("ranklogd: ", file, ": ", what, "\n");
  }
  absl::ConsumeSuffix(&key, ".++");
  if (const int line = lines.LineOf(std::string(key)); line > 0) absl::StrAppend(&file, ":", line);
  const std::string suggestion = DidYouMean(key, SettingsOf(app));
  return absl::StrCat("ranklogd: ", file, ": unknown option '", key, "'",
                      suggestion.empty() ? ";" : suggestion,
                      " use the options of `ranklogd --help`, without the dashes\n");
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

Parsed TextOf(const CLI::App& app, const LinedConfig& file, const CLI::ParseError& error) {
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
                    : absl::StrCat("ranklogd: ", error.what(), Suggestion(app, error),
                                   "; see `ranklogd --help`\n");
  return parsed;
}

}  // namespace ranklog::daemon
