#include "client/settings/destination_variables.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/base/keys.h"
#include "client/settings/environment.h"
#include "client/settings/setting_table.h"
#include "client/settings/validate.h"
#include "ranklog/v1/base_url.h"

namespace ranklog::internal {
namespace {

// Names of users count too: an account is nobody else's business.
bool MayBeSecret(absl::string_view variable) {
  constexpr const char* kWords[] = {"KEY", "TOKEN", "PASS", "SECRET", "CREDENTIAL", "USER"};
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](const char* word) { return absl::StrContains(variable, word); });
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

void ReadVariablesOf(const std::string& destination, Settings* settings) {
  const std::string prefix = VariablePrefix(destination);
  size_t bytes = DestinationSettingsBytes(*settings);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text(*entry);
    if (!absl::StartsWith(text, prefix)) continue;
    const std::string name(text.substr(0, text.find('=')));
    if (IsReadElsewhere(name)) continue;
    std::optional<std::string> value = Variable(name.c_str());
    if (!value) continue;
    if (MayBeSecret(name)) {
      settings->credentials.emplace(name, *std::move(value));
      continue;
    }
    if (!TextError(name, kMaxDestinationValue).empty() ||
        !TextError(*value, kMaxDestinationValue).empty() ||
        bytes + name.size() + value->size() > kMaxDestinationSettings) {
      continue;
    }
    bytes += name.size() + value->size();
    settings->destination_settings[destination].emplace(name, *std::move(value));
  }
}

void SeparateSecrets(Settings* settings) {
  for (auto& [kind, members] : settings->destination_settings) {
    for (auto& [name, value] : members) {
      value = Trimmed(value);
      if (!IsUrl(name, value)) continue;
      std::string plain = v1::WithoutUser(value);
      if (plain == value) continue;
      const std::string prefix = VariablePrefix(kind);
      const std::string variable =
          absl::StartsWith(name, prefix) ? name : absl::StrCat(prefix, absl::AsciiStrToUpper(name));
      settings->credentials.emplace(variable, std::exchange(value, std::move(plain)));
    }
  }
}

}  // namespace ranklog::internal
