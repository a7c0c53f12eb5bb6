#include "service/daemon/config_sources.h"

#include <stdlib.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ranklog::daemon {
namespace {

constexpr const char* kNoSettings[] = {"help", "version", "config", "print-config"};
constexpr size_t kSourceColumn = 48;

bool IsGivenByFlag(const std::string& name, const std::vector<std::string>& args) {
  const std::string flag = "--" + name;
  return std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    return arg == flag || absl::StartsWith(arg, flag + "=");
  });
}

// As TOML has it.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') quoted += '\\';
    quoted += each;
  }
  return quoted + "\"";
}

}  // namespace

std::vector<CLI::ConfigItem> LinedConfig::from_config(std::istream& input) const {
  const std::string text(std::istreambuf_iterator<char>(input), {});
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('='));
    line = absl::StripAsciiWhitespace(line);
    if (line.size() > 1 && (line.front() == '"' || line.front() == '[')) {
      line = absl::StripAsciiWhitespace(line.substr(1, line.size() - 2));
    }
    lines_.emplace(line, number);  // the first one counts
  }
  std::istringstream again(text);
  return CLI::ConfigTOML::from_config(again);
}

int LinedConfig::LineOf(const std::string& key) const {
  const auto found = lines_.find(key);
  return found == lines_.end() ? 0 : found->second;
}

std::vector<std::string> SettingsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    const std::string& name = option->get_lnames().front();
    if (std::find(std::begin(kNoSettings), std::end(kNoSettings), name) == std::end(kNoSettings)) {
      names.push_back(name);
    }
  }
  return names;
}

std::string PrintConfig(const CLI::App& app, const LinedConfig& file,
                        const std::vector<std::string>& args,
                        const std::map<std::string, PrintedValue>& special) {
  std::string text;
  for (const std::string& name : SettingsOf(app)) {
    const CLI::Option& option = *app.get_option("--" + name);
    const bool is_flag = option.get_items_expected_max() == 0;
    const bool given = option.count() > 0;
    const auto known = special.find(name);
    std::string value = given ? option.results().back() : option.get_default_str();
    std::string variable =
        getenv(option.get_envname().c_str()) == nullptr ? "" : option.get_envname();
    if (known != special.end()) {
      value = known->second.value;
      variable = known->second.variable;
    }
    std::string source = "default";
    if (IsGivenByFlag(name, args)) {
      source = "--" + name;
    } else if (const int line = file.LineOf(name); given && line > 0) {
      source = absl::StrCat(app.get_config_ptr()->as<std::string>(), ":", line);
    } else if (!variable.empty()) {
      source = absl::StrCat("$", variable);
    }
    std::string setting = is_flag
                              ? absl::StrCat(name, " = ", given ? value : "false")
                              : absl::StrCat(value.empty() ? "#" : "", name, " = ", Quoted(value));
    setting.resize(std::max(setting.size() + 1, kSourceColumn), ' ');
    absl::StrAppend(&text, setting, "# ", source, "\n");
  }
  return text;
}

}  // namespace ranklog::daemon
