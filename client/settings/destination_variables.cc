#include "client/settings/destination_variables.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/base/text/keys.h"
#include "client/settings/environment.h"
#include "client/settings/setting_table.h"
#include "ranklog/v1/base_url.h"

namespace ranklog::internal {
namespace {

// Names of users count too: an account is nobody else's business.
bool MayBeSecret(std::string name) {
  constexpr const char* kWords[] = {"KEY", "TOKEN", "PASS", "SECRET", "CREDENTIAL", "USER"};
  absl::AsciiStrToUpper(&name);
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](const char* word) { return absl::StrContains(name, word); });
}

// The server, a place at it, or the way there.
bool NamesPlace(absl::string_view variable) {
  constexpr const char* kEnds[] = {"_URL",   "_URI",  "_HOST", "_PORT", "_NAME",      "_DATABASE",
                                   "_TABLE", "_FROM", "_ID",   "_TLS",  "_CERT_PATH", "_INTERVAL"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](const char* end) { return absl::EndsWith(variable, end); });
}

template <typename T>
bool Names(const T& setting, std::string_view variable) {
  return std::any_of(std::begin(setting.variables), std::end(setting.variables),
                     [&](const char* name) { return name != nullptr && name == variable; });
}

// Whether another setting reads it.
bool IsReadElsewhere(std::string_view variable) {
  if (variable == "WANDB_MODE" || variable == "WANDB_TAGS") return true;
  const auto names = [&](const auto& setting) { return Names(setting, variable); };
  return std::any_of(std::begin(kTextSettings), std::end(kTextSettings), names) ||
         std::any_of(std::begin(kFlagSettings), std::end(kFlagSettings), names);
}

// Empty: the current directory is unknown.
std::string OfflineDir() {
  std::string dir = Variable("WANDB_DIR").value_or("");
  if (absl::StartsWith(dir, "/")) return dir;
  char here[4096];
  if (getcwd(here, sizeof here) == nullptr) return "";
  return dir.empty() ? here : absl::StrCat(here, "/", dir);
}

bool IsUrl(absl::string_view name, absl::string_view value) {
  return absl::StrContains(value, "://") || absl::EndsWithIgnoreCase(name, "url") ||
         absl::EndsWithIgnoreCase(name, "uri");
}

}  // namespace

bool IsDestinationName(std::string_view name) {
  return !name.empty() && name.size() <= 32 && absl::ascii_islower(name[0]) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

std::string VariablePrefix(std::string_view destination) {
  return absl::AsciiStrToUpper(
      absl::StrCat(absl::string_view(destination.data(), destination.size()), "_"));
}

size_t DestinationSettingsBytes(const Settings& settings) {
  size_t bytes = 0;
  for (const auto& [kind, members] : settings.destination_settings) {
    for (const auto& [name, value] : members) bytes += name.size() + value.size();
  }
  return bytes;
}

bool IsSecretOf(std::string_view destination, std::string_view variable) {
  const std::string prefix = VariablePrefix(destination);
  return variable.substr(0, prefix.size()) == prefix && MayBeSecret(std::string(variable));
}

void ReadVariablesOf(const std::string& destination, Settings* settings) {
  if (destination == kOffline) {
    settings->destination_settings[destination].emplace("dir", OfflineDir());
  }
  const std::string prefix = VariablePrefix(destination);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text(*entry);
    if (!absl::StartsWith(text, prefix)) continue;
    const std::string name(text.substr(0, text.find('=')));
    const bool is_secret = MayBeSecret(name);
    if (IsReadElsewhere(name) || (!is_secret && !NamesPlace(name))) continue;
    std::optional<std::string> value = Variable(name.c_str());
    if (!value) continue;
    auto& where = is_secret ? settings->credentials : settings->destination_settings[destination];
    where.emplace(name, *std::move(value));
  }
}

void SeparateSecrets(Settings* settings) {
  for (auto& [kind, members] : settings->destination_settings) {
    const std::string prefix = VariablePrefix(kind);
    for (auto member = members.begin(); member != members.end();) {
      auto& [name, value] = *member;
      value = Trimmed(value);
      std::string plain = IsUrl(name, value) ? v1::WithoutUser(value) : value;
      const bool is_secret = MayBeSecret(name);
      if (is_secret || plain != value) {
        const bool is_variable = absl::StartsWith(name, prefix);
        settings->credentials.emplace(
            is_variable ? name : absl::StrCat(prefix, absl::AsciiStrToUpper(name)),
            std::exchange(value, std::move(plain)));
      }
      member = is_secret ? members.erase(member) : std::next(member);
    }
  }
}

}  // namespace ranklog::internal
