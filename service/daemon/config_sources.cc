#include "service/daemon/config_sources.h"

#include <stdlib.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"

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

// The text as a quoted TOML string.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') quoted += '\\';
    if (each == '\n' || each == '\t') {
      quoted += each == '\n' ? "\\n" : "\\t";
    } else {
      quoted += each;
    }
  }
  return quoted + "\"";
}

CLI::ConfigError BadLine(int number, absl::string_view why) {
  return CLI::ConfigError(absl::StrCat("line ", number, ": ", why));
}

// Removes the TOML string at the start of `text`, in " or ', and returns its value.
std::string TakeString(int number, absl::string_view* text) {
  const char quote = text->front();
  std::string value;
  for (size_t i = 1; i < text->size(); ++i) {
    char each = (*text)[i];
    if (each == quote) {
      text->remove_prefix(i + 1);
      return value;
    }
    if (each == '\\' && quote == '"') {
      each = ++i < text->size() ? (*text)[i] : ' ';
      if (each == 'n' || each == 't') {
        each = each == 'n' ? '\n' : '\t';
      } else if (each != '"' && each != '\\') {
        throw BadLine(number, "write a backslash in quotes as \\\\, or put the value into '...'");
      }
    }
    value += each;
  }
  throw BadLine(number, "the value has no closing quote");
}

// The setting in a line KEY = "VALUE", with or without a comment. nullopt: CLI11 must read the
// line. CLI11 supports neither a '#' in quotes nor backslash escapes.
absl::optional<CLI::ConfigItem> QuotedSetting(int number, absl::string_view line) {
  const size_t equals = line.find('=');
  if (equals == absl::string_view::npos) return absl::nullopt;
  absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
  absl::string_view rest = absl::StripAsciiWhitespace(line.substr(equals + 1));
  if (key.empty() || key.front() == '#' || key.front() == ';' || key.front() == '[') {
    return absl::nullopt;
  }
  if (rest.empty() || (rest.front() != '"' && rest.front() != '\'')) return absl::nullopt;
  if (key.size() > 1 && key.front() == '"') key = key.substr(1, key.size() - 2);
  CLI::ConfigItem item;
  item.name = std::string(key);
  item.inputs = {TakeString(number, &rest)};
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (!rest.empty() && rest.front() != '#') {
    throw BadLine(number, "unexpected text after the closing quote");
  }
  return item;
}

}  // namespace

std::vector<CLI::ConfigItem> LinedConfig::from_config(std::istream& input) const {
  const std::string text(std::istreambuf_iterator<char>(input), {});
  int number = 0;
  std::vector<CLI::ConfigItem> items;
  std::string others;  // the lines that CLI11 reads, at their line numbers
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (auto item = QuotedSetting(number, line)) {
      items.push_back(*std::move(item));
    } else {
      absl::StrAppend(&others, line);
    }
    others += '\n';
    line = line.substr(0, line.find('='));
    line = absl::StripAsciiWhitespace(line);
    if (line.size() > 1 && (line.front() == '"' || line.front() == '[')) {
      line = absl::StripAsciiWhitespace(line.substr(1, line.size() - 2));
    }
    lines_.emplace(line, number);  // the first line of a key counts
  }
  std::istringstream again(others);
  for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(again)) items.push_back(item);
  return items;
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
