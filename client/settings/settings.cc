// SettingsFromEnvironment().

#include "ranklog/settings.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/settings/destination_variables.h"
#include "client/settings/environment.h"
#include "client/settings/peer_address.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/setting_table.h"
#include "client/settings/strategy_name.h"

namespace ranklog {
namespace {

using internal::FirstVariable;
using internal::ParseInteger;
using internal::SplitList;
using internal::Variable;

// What replaces a variable that cannot be read, to follow the mistake.
std::string CountsAsUnset(absl::string_view otherwise) {
  return absl::StrCat("; it counts as unset (", otherwise, ")");
}

template <typename T>
void ReadNumber(const internal::NumberSetting<T>& number, Settings* settings) {
  if (number.variable == nullptr) return;
  const auto text = Variable(number.variable);
  if (!text) return;
  const auto value = ParseInteger(*text);
  if (value && (*value >= 0 || !std::is_unsigned_v<T>)) {
    settings->*number.member = T(*value);
  } else {
    settings->environment_errors.push_back(
        absl::StrCat(number.variable, "=", *text, " is not ", number.what,
                     CountsAsUnset(internal::TextOf(settings->*number.member))));
  }
}

// A whole number and its unit: 500ms, 90s, 10m, 1h.
std::optional<std::chrono::milliseconds> ParseTime(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789");
  if (digits == std::string_view::npos || digits > 9) return std::nullopt;  // no overflow
  const auto number = ParseInteger(text.substr(0, digits));
  if (!number) return std::nullopt;
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}};
  for (const auto& [unit, millis] : kUnits) {
    if (text.substr(digits) == unit) return std::chrono::milliseconds(*number * millis);
  }
  return std::nullopt;
}

void ReadFinish(Settings* settings) {
  const auto text = Variable("RANKLOG_FINISH");
  if (!text || *text == "durable") return;
  constexpr std::string_view kDelivered = "delivered";
  const std::string_view value = *text;
  if (value.substr(0, kDelivered.size()) == kDelivered) {
    settings->delivery_timeout = Settings::kDeliveryTimeout;
    if (value == kDelivered) return;
    if (value[kDelivered.size()] == ':') {
      const auto timeout = ParseTime(value.substr(kDelivered.size() + 1));
      if (timeout) settings->delivery_timeout = *timeout;
      if (timeout && timeout->count() > 0) return;
    }
  }
  settings->environment_errors.push_back(
      absl::StrCat("RANKLOG_FINISH=", *text,
                   " is unknown; use durable, delivered or delivered:TIME, with a time such as "
                   "90s, 10m or 1h; it counts as ",
                   settings->delivery_timeout.count() > 0 ? "delivered" : "durable"));
}

// The words that W&B's package takes for true and false.
std::optional<bool> ParseFlag(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), lower) != words.end();
  };
  if (is_one_of({"1", "true", "t", "yes", "y", "on"})) return true;
  if (is_one_of({"0", "false", "f", "no", "n", "off"})) return false;
  return std::nullopt;
}

void ReadFlag(const internal::FlagSetting& flag, Settings* settings) {
  for (const char* name : flag.variables) {
    const auto text = name == nullptr ? std::nullopt : Variable(name);
    if (!text) continue;
    if (const auto value = ParseFlag(*text)) {
      settings->*flag.member = *value;
    } else {
      settings->environment_errors.push_back(
          absl::StrCat(name, "=", *text, " is unknown; use 1 or 0",
                       CountsAsUnset(settings->*flag.member ? "1" : "0")));
    }
    return;
  }
}

// A value that is neither true nor false counts as false, as in W&B's package.
void ReadDisabling(Settings* settings) {
  for (const internal::DisablingVariable& variable : internal::kDisablingVariables) {
    const auto text = Variable(variable.name);
    if (text && ParseFlag(*text).value_or(false)) settings->*variable.member = false;
  }
}

// As in W&B's package, true means auto, and false means unset.
void ReadResume(Settings* settings) {
  const auto flag = ParseFlag(settings->resume);
  if (flag) settings->resume = *flag ? "auto" : "";
}

void ReadStrategy(Settings* settings) {
  const auto text = Variable("RANKLOG_LOG_STRATEGY");
  if (!text) return;
  for (const LogStrategy strategy : {LogStrategy::kMain, LogStrategy::kNode, LogStrategy::kAll}) {
    if (*text != internal::Name(strategy)) continue;
    settings->log_strategy = strategy;
    return;
  }
  settings->environment_errors.push_back(
      absl::StrCat("RANKLOG_LOG_STRATEGY=", *text, " is unknown; use main, node or all",
                   CountsAsUnset(internal::Name(settings->log_strategy))));
}

void ReadDestinations(Settings* settings) {
  const auto mode = Variable("WANDB_MODE");
  const auto list = Variable("RANKLOG_DESTINATIONS");
  if (mode == "offline" || mode == "dryrun") {
    settings->destinations = {internal::kOffline};
  } else if (mode == "disabled") {
    settings->disabled = true;
  } else if (mode && mode != "online" && mode != "run" && mode != "shared") {
    // Whatever the user meant, the rows are kept, and nothing leaves the node unasked.
    settings->destinations = {"local"};
    settings->environment_errors.push_back(
        absl::StrCat("WANDB_MODE=", *mode, " is unknown; use online, offline or disabled",
                     list ? "" : "; the rows stay on this node until `ranklog sync --to wandb`"));
  }
  if (list) settings->destinations = SplitList(*list);
  for (const std::string& name : settings->destinations) internal::ReadVariablesOf(name, settings);
  for (const char* name : internal::kUsualDestinations) internal::ReadVariablesOf(name, settings);
}

// Removes the key from error messages, in case it was also set in a wrong variable. Values shorter
// than any key are not replaced, because that would only garble the messages.
void MaskKey(Settings* settings) {
  constexpr size_t kShortestKey = 40;  // W&B's first keys; later ones are longer
  for (const auto& [name, key] : settings->credentials) {
    if (key.size() < kShortestKey) continue;
    for (std::string& error : settings->environment_errors) {
      absl::StrReplaceAll({{key, absl::StrCat("[", name, "]")}}, &error);
    }
  }
}

}  // namespace

Settings internal::SettingsFromEnvironment() {
  Settings settings;
  for (const internal::TextSetting& text : internal::kTextSettings) {
    if (auto value = FirstVariable(text.variables)) settings.*text.member = *std::move(value);
  }
  if (const auto tags = FirstVariable({"RANKLOG_TAGS", "WANDB_TAGS"})) {
    settings.tags = SplitList(*tags);
  }
  if (const auto list = Variable("RANKLOG_RANK_STATISTICS")) {
    settings.rank_statistics = internal::SplitRankStatistics(*list);
  }
  ReadResume(&settings);
  ReadStrategy(&settings);
  ReadDisabling(&settings);
  for (const internal::FlagSetting& flag : internal::kFlagSettings) ReadFlag(flag, &settings);
  ReadDestinations(&settings);
  internal::ForEachNumberSetting([&](const auto& number) { ReadNumber(number, &settings); });
  ReadFinish(&settings);
  internal::ReadRanks(&settings);
  if (const auto peer = Variable("RANKLOG_PEER"); peer && !internal::IsPeerAddress(*peer)) {
    settings.environment_errors.push_back(absl::StrCat("RANKLOG_PEER=", *peer,
                                                       " is not HOST or HOST:PORT",
                                                       CountsAsUnset("the launcher's variables")));
  }
  MaskKey(&settings);
  return settings;
}

}  // namespace ranklog
