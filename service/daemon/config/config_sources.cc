#include "service/daemon/config/config_sources.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "service/base/environment.h"
#include "service/base/text/suggestion.h"

namespace ranklog::daemon {
namespace {

constexpr const char* kNoSettings[] = {"help", "version", "config", "print-config"};
constexpr size_t kSourceColumn = 48;
constexpr std::pair<absl::string_view, const char*> kVariables[] = {
    {"state-dir", "RANKLOG_STATE_DIR"},
    {"listen", "RANKLOG_ADDRESS"},
    {"spool-dir", "RANKLOG_SPOOL_DIR"},
    {"transmit-interval", "RANKLOG_TRANSMIT_INTERVAL"},
    {"sample-interval", "RANKLOG_SAMPLE_INTERVAL"},
    {"peer-listen", "RANKLOG_PEER_LISTEN"},
    {"peer-key", "RANKLOG_PEER_KEY"},
    {"peer", "RANKLOG_PEER"},
};
constexpr char kByteOrderMark[] = "\xef\xbb\xbf";  // some editors begin a UTF-8 file with it

// The variable of a setting; null: it has none.
const char* VariableOf(absl::string_view name) {
  for (const auto& [setting, variable] : kVariables) {
    if (setting == name) return variable;
  }
  return nullptr;
}

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
  return CLI::ConfigError(absl::StrCat(":", number, ": ", why));
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

// A value without quotes, such as true or 9464.
std::string TakeWord(absl::string_view* text) {
  const size_t end = std::min(text->find_first_of(" \t#,[]{}\"'="), text->size());
  const std::string word(text->substr(0, end));
  text->remove_prefix(end);
  return word;
}

bool IsCommentOrEmpty(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  return text.empty() || text.front() == '#';
}

struct Setting {
  CLI::ConfigItem item;
  bool quoted = false;
};

// The setting in a line KEY = VALUE, with or without a comment. nullopt: there is only a comment.
absl::optional<Setting> ReadSetting(int number, absl::string_view line) {
  if (line.find('\0') != absl::string_view::npos) {
    throw BadLine(number, "a zero byte; write the file as text in UTF-8");
  }
  if (IsCommentOrEmpty(line)) return absl::nullopt;
  const CLI::ConfigError no_setting =
      BadLine(number, "not a setting; write KEY = \"VALUE\", without sections and arrays");
  const size_t equals = line.find('=');
  if (equals == absl::string_view::npos) throw no_setting;
  absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
  absl::string_view rest = absl::StripAsciiWhitespace(line.substr(equals + 1));
  if (key.size() > 1 && key.front() == '"' && key.back() == '"') {
    key = key.substr(1, key.size() - 2);
  }
  if (key.empty() || rest.empty() || key.find_first_of(" \t#[]\"'") != absl::string_view::npos) {
    throw no_setting;
  }
  Setting setting;
  setting.item.name = std::string(key);
  setting.quoted = rest.front() == '"' || rest.front() == '\'';
  if (setting.quoted) {
    setting.item.inputs = {TakeString(number, &rest)};
    if (!IsCommentOrEmpty(rest)) throw BadLine(number, "unexpected text after the closing quote");
    return setting;
  }
  setting.item.inputs = {TakeWord(&rest)};
  if (setting.item.inputs.front().empty() || !IsCommentOrEmpty(rest)) throw no_setting;
  return setting;
}

// Throws unless the key is a setting of `app`, and the value has quotes where TOML requires them.
void CheckSetting(const CLI::App& app, int number, const Setting& setting) {
  const std::string& name = setting.item.name;
  const std::vector<std::string> known = SettingsOf(app);
  const CLI::Option* const option = app.get_option_no_throw("--" + name);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    if (option != nullptr) {
      throw BadLine(number, absl::StrCat("'", name, "' is only a flag; remove this line"));
    }
    const std::string suggestion = DidYouMean(name, known);
    throw BadLine(number,
                  absl::StrCat("unknown option '", name, "'", suggestion.empty() ? ";" : suggestion,
                               " use the options of `ranklogd --help`, without the dashes"));
  }
  const std::string& value = setting.item.inputs.front();
  int64_t integer = 0;
  const bool is_switch = option->get_items_expected_max() == 0;  // CLI11 checks for true or false
  if (!setting.quoted && !is_switch && !absl::SimpleAtoi(value, &integer)) {
    throw BadLine(number, absl::StrCat("put the value in quotes: ", name, " = ", Quoted(value)));
  }
}

}  // namespace

std::vector<CLI::ConfigItem> LinedConfig::from_config(std::istream& input) const {
  std::vector<CLI::ConfigItem> items;
  int number = 0;
  for (std::string line; std::getline(input, line);) {
    absl::string_view text = line;
    if (++number == 1) absl::ConsumePrefix(&text, kByteOrderMark);
    auto setting = ReadSetting(number, text);
    if (!setting) continue;
    CLI::ConfigItem& item = setting->item;
    if (const auto [first, is_new] = lines_.emplace(item.name, number); !is_new) {
      throw BadLine(number, absl::StrCat("'", item.name, "' is already in line ", first->second));
    }
    CheckSetting(app_, number, *setting);
    items.push_back(std::move(item));
  }
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

void UseVariable(CLI::App& app, const std::string& name) {
  CLI::Option* const option = app.get_option("--" + name);
  const std::string value = EnvironmentVariable(VariableOf(name));
  if (option->count() > 0 || value.empty()) return;
  option->add_result(value);
  option->run_callback();
}

std::string SourceOf(const CLI::App& app, const LinedConfig& file,
                     const std::vector<std::string>& args, const std::string& name) {
  if (IsGivenByFlag(name, args)) return "--" + name;
  if (const int line = file.LineOf(name); line > 0) {
    return absl::StrCat(app.get_config_ptr()->as<std::string>(), ":", line);
  }
  const char* const variable = VariableOf(name);
  return variable == nullptr || EnvironmentVariable(variable).empty() ? ""
                                                                      : absl::StrCat("$", variable);
}

std::string PrintConfig(const CLI::App& app, const LinedConfig& file,
                        const std::vector<std::string>& args,
                        const std::map<std::string, std::string>& effective) {
  std::string text;
  for (const std::string& name : SettingsOf(app)) {
    const CLI::Option& option = *app.get_option("--" + name);
    const bool is_flag = option.get_items_expected_max() == 0;
    const bool given = option.count() > 0;
    const auto known = effective.find(name);
    std::string value = given ? option.results().back() : option.get_default_str();
    if (known != effective.end()) value = known->second;
    const std::string source = SourceOf(app, file, args, name);
    std::string setting = is_flag
                              ? absl::StrCat(name, " = ", given ? value : "false")
                              : absl::StrCat(value.empty() ? "#" : "", name, " = ", Quoted(value));
    setting.resize(std::max(setting.size() + 1, kSourceColumn), ' ');
    absl::StrAppend(&text, setting, "# ", source.empty() ? "default" : source, "\n");
  }
  return text;
}

}  // namespace ranklog::daemon
