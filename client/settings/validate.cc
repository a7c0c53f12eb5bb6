#include "client/settings/validate.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/base/text/keys.h"
#include "client/base/text/short_name.h"
#include "client/settings/destination_variables.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/run_handle.h"
#include "client/settings/setting_table.h"
#include "client/settings/socket_address.h"
#include "client/settings/strategy_name.h"

namespace ranklog {
namespace {

// Limits that keep the Hello well below its space in the ring.
constexpr size_t kMaxCredentialBytes = 1024;
constexpr size_t kMaxTags = 32;
constexpr size_t kMaxTagBytes = 256;

using Choices = absl::Span<const char* const>;
using Errors = std::vector<std::string>;

void CheckText(const char* name, const std::string& value, size_t max_bytes, Errors* errors) {
  const std::string why = internal::TextError(value, max_bytes);
  if (why.empty()) return;
  const bool only_long = internal::TextError(value, value.size()).empty();
  errors->push_back(
      absl::StrCat(name, why, "; Init() ", only_long ? "cuts it" : "writes ? for each wrong byte"));
}

bool IsOneOf(Choices choices, const std::string& value) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

void CheckOneOf(const char* name, const std::string& value, Choices choices,
                std::string_view instead, Errors* errors) {
  if (IsOneOf(choices, value)) return;
  errors->push_back(absl::StrCat(name, " is \"", value, "\"; use one of ",
                                 absl::StrJoin(choices, ", "), "; Init() ",
                                 absl::string_view(instead.data(), instead.size())));
}

template <typename T>
void CheckNumber(const internal::NumberSetting<T>& number, T value, Errors* errors) {
  if (value < number.least || value > number.most) {
    errors->push_back(absl::StrCat(number.name, " is ", internal::TextOf(value), ", not between ",
                                   internal::TextOf(number.least), " and ",
                                   internal::TextOf(number.most), "; Init() uses ",
                                   internal::TextOf(std::clamp(value, number.least, number.most))));
  }
}

// Replaces a run id that is not valid. Different ids stay different.
std::string RunIdFor(std::string id) {
  const std::string mark = absl::StrCat("-", internal::HashName(id));
  for (char& c : id) {
    if (!internal::IsRunId(std::string_view(&c, 1)) && c != '.') c = '-';
  }
  return id.substr(0, 100) + mark;
}

// The first word in braces that a name pattern may not have; empty if there is none.
std::string UnknownWord(std::string_view pattern) {
  constexpr std::string_view kWords[] = {"{rank}", "{local_rank}", "{node_rank}",
                                         "{node}", "{id}",         "{name}"};
  for (size_t begin = pattern.find('{'); begin != std::string_view::npos;
       begin = pattern.find('{', begin + 1)) {
    const size_t end = pattern.find('}', begin);
    const std::string_view word =
        pattern.substr(begin, end == pattern.npos ? end : end - begin + 1);
    if (std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords)) {
      return std::string(word);
    }
  }
  return "";
}

void CheckTexts(const Settings& settings, Errors* errors) {
  for (const internal::TextSetting& text : internal::kTextSettings) {
    if (text.max_bytes == internal::kNoTextLimit) continue;
    const std::string& value = settings.*text.member;
    CheckText(text.name, value, text.max_bytes, errors);
    if (value.find_first_of(text.refused) != std::string::npos) {
      const auto as_it_is = [](std::string* out, char c) { out->push_back(c); };
      errors->push_back(absl::StrCat(text.name, " contains one of ",
                                     absl::StrJoin(std::string_view(text.refused), " ", as_it_is),
                                     ", which the trackers refuse; Init() writes - for each"));
    }
  }
  if (settings.tags.size() > kMaxTags) {
    errors->push_back(absl::StrCat("there are ", settings.tags.size(),
                                   " tags; Init() uses the first ", kMaxTags));
  }
  for (size_t i = 0; i < std::min(settings.tags.size(), kMaxTags); ++i) {
    CheckText("a tag", settings.tags[i], kMaxTagBytes, errors);
  }
  for (const auto& [kind, members] : settings.destination_settings) {
    if (!internal::IsDestinationName(kind)) {
      errors->push_back(
          "destination_settings has a name that is no destination's, such as wandb; Init() leaves "
          "its settings out");
      continue;
    }
    for (const auto& [name, value] : members) {
      const std::string why = internal::TextError(name, internal::kMaxDestinationValue);
      if (!why.empty()) {
        errors->push_back(
            absl::StrCat("the name of a setting of ", kind, why, "; Init() leaves it out"));
        continue;
      }
      CheckText(absl::StrCat("the setting ", name, " of ", kind).c_str(), value,
                internal::kMaxDestinationValue, errors);
    }
  }
  if (internal::DestinationSettingsBytes(settings) > internal::kMaxDestinationSettings) {
    errors->push_back(absl::StrCat("the settings of destinations have more than ",
                                   internal::kMaxDestinationSettings,
                                   " bytes; Init() leaves some out"));
  }
  for (const auto& [name, value] : settings.credentials) {
    const std::string why = internal::TextError(name, kMaxCredentialBytes);
    if (!why.empty()) {
      errors->push_back(absl::StrCat("a credential's name", why, "; Init() leaves it out"));
    } else {
      CheckText(name.c_str(), value, kMaxCredentialBytes, errors);
    }
  }
  if (const std::string word = UnknownWord(settings.run_name_pattern); !word.empty()) {
    errors->push_back(absl::StrCat("run_name_pattern has the unknown word ", word,
                                   "; use {rank}, {local_rank}, {node_rank}, {node}, {id} or "
                                   "{name}; Init() uses rank-{rank}"));
  }
  if (!settings.handle.empty()) {
    const absl::Status handle = internal::DecodeHandle(settings.handle).status();
    if (!handle.ok()) errors->emplace_back(handle.message().data(), handle.message().size());
  }
  if (!settings.run_id.empty() && !internal::IsRunId(settings.run_id)) {
    const bool dots = settings.run_id.find_first_not_of('.') == std::string::npos;
    errors->push_back(absl::StrCat(
        "run_id is \"", settings.run_id,
        dots ? "\", which has only dots" : "\", not 1 to 128 of the characters A-Z a-z 0-9 _ - .",
        "; Init() uses ", RunIdFor(settings.run_id)));
  }
}

// The rank and the world size that replace wrong ones. The rank does not change, because the rows
// are stored under it. Only the largest int cannot be below a world size.
std::pair<int, int> RankAndWorldFor(const Settings& settings) {
  const int rank = std::clamp(settings.rank.value_or(0), 0, std::numeric_limits<int>::max() - 1);
  return {rank, std::max(settings.world_size.value_or(1), rank + 1)};
}

void CheckRanks(const Settings& settings, Errors* errors) {
  if (settings.rank.has_value() != settings.world_size.has_value()) {
    errors->push_back(settings.rank ? "rank is set but world_size is not; set both or none"
                                    : "world_size is set but rank is not; set both or none");
    return;
  }
  const int rank = settings.rank.value_or(0);
  const int world_size = settings.world_size.value_or(1);
  if (rank < 0 || rank >= world_size) {
    const auto [used_rank, used_world] = RankAndWorldFor(settings);
    errors->push_back(absl::StrCat(
        "rank ", rank,
        rank < 0 ? " is negative" : absl::StrCat(" is not below world_size ", world_size),
        "; Init() uses rank ", used_rank, " of ", used_world));
  }
  constexpr char kIgnored[] = "; Init() ignores local_rank, local_world_size and node_rank";
  if (settings.local_world_size &&
      (*settings.local_world_size < 1 || *settings.local_world_size > world_size)) {
    errors->push_back(absl::StrCat("local_world_size ", *settings.local_world_size,
                                   " is not between 1 and world_size ", world_size, kIgnored));
  }
  const int local_world_size = settings.local_world_size.value_or(world_size);
  if (settings.local_rank &&
      (*settings.local_rank < 0 || *settings.local_rank >= local_world_size)) {
    errors->push_back(absl::StrCat("local_rank ", *settings.local_rank,
                                   " is not below local_world_size ", local_world_size, kIgnored));
  }
  if (settings.node_rank && (*settings.node_rank < 0 || *settings.node_rank >= world_size)) {
    errors->push_back(absl::StrCat("node_rank ", *settings.node_rank, " is not below world_size ",
                                   world_size, kIgnored));
  }
}

void CleanText(std::string* text, size_t max_bytes) {
  const bool utf8 = internal::IsUtf8(*text);
  for (char& c : *text) {
    if (c == '\0' || (!utf8 && static_cast<unsigned char>(c) >= 0x80)) c = '?';
  }
  if (text->size() <= max_bytes) return;
  while (max_bytes > 0 && (static_cast<unsigned char>((*text)[max_bytes]) & 0xC0) == 0x80) {
    --max_bytes;  // not in the middle of a character
  }
  text->resize(max_bytes);
}

void CleanDestinationSettings(Settings* settings) {
  std::erase_if(settings->destination_settings,
                [](const auto& one) { return !internal::IsDestinationName(one.first); });
  size_t bytes = 0;
  for (auto& [kind, members] : settings->destination_settings) {
    const bool is_name = internal::IsDestinationName(kind);
    for (auto& [name, value] : members) CleanText(&value, internal::kMaxDestinationValue);
    std::erase_if(members, [&](const auto& member) {
      const size_t more = member.first.size() + member.second.size();
      const bool fits = is_name &&
                        internal::TextError(member.first, internal::kMaxDestinationValue).empty() &&
                        bytes + more <= internal::kMaxDestinationSettings;
      if (fits) bytes += more;
      return !fits;
    });
  }
}

void CleanTexts(Settings* settings) {
  for (const internal::TextSetting& text : internal::kTextSettings) {
    std::string& value = settings->*text.member;
    if (text.max_bytes != internal::kNoTextLimit) CleanText(&value, text.max_bytes);
    for (char& c : value) {
      if (std::string_view(text.refused).find(c) != std::string_view::npos) c = '-';
    }
    if (!text.choices.empty() && !IsOneOf(text.choices, value)) value.clear();
  }
  if (settings->tags.size() > kMaxTags) settings->tags.resize(kMaxTags);
  for (std::string& tag : settings->tags) CleanText(&tag, kMaxTagBytes);
  std::erase_if(settings->credentials, [](const auto& credential) {  // no tracker knows such a name
    return !internal::TextError(credential.first, kMaxCredentialBytes).empty();
  });
  for (auto& [name, value] : settings->credentials) CleanText(&value, kMaxCredentialBytes);
  CleanDestinationSettings(settings);
  if (!UnknownWord(settings->run_name_pattern).empty()) settings->run_name_pattern.clear();
  if (!internal::DecodeHandle(settings->handle).ok()) settings->handle.clear();
  std::string& id = settings->run_id;
  if (!id.empty() && !internal::IsRunId(id)) id = RunIdFor(id);
}

void RepairRanks(Settings* settings) {
  if (internal::RankErrors(*settings).empty()) return;
  std::tie(settings->rank, settings->world_size) = RankAndWorldFor(*settings);
  settings->local_rank.reset();
  settings->local_world_size.reset();
  settings->node_rank.reset();
}

}  // namespace

bool internal::IsRunId(std::string_view text) {
  return text.size() <= 128 &&
         text.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") ==
             std::string_view::npos &&
         text.find_first_not_of('.') != std::string_view::npos;
}

std::string internal::TextError(std::string_view text, size_t max_bytes) {
  if (!IsUtf8(text)) return " is not UTF-8";
  if (text.find('\0') != std::string_view::npos) return " contains a zero byte";
  return text.size() <= max_bytes ? "" : absl::StrCat(" is longer than ", max_bytes, " bytes");
}

Errors internal::RankErrors(const Settings& settings) {
  Errors errors;
  CheckRanks(settings, &errors);
  return errors;
}

Settings internal::Repair(Settings settings) {
  CleanTexts(&settings);
  RepairRanks(&settings);
  if (!internal::IsKnown(settings.log_strategy)) settings.log_strategy = LogStrategy::kMain;
  std::vector<std::string>& destinations = settings.destinations;
  const auto is_no_name = [](const std::string& item) { return !IsDestinationName(item); };
  if (std::erase_if(destinations, is_no_name) > 0 && destinations.empty()) destinations = {"local"};
  if (destinations.size() > kMaxDestinations) destinations.resize(kMaxDestinations);
  settings.rank_statistics = internal::RepairRankStatistics(settings.rank_statistics);
  ForEachNumberSetting([&](const auto& number) {
    settings.*number.member = std::clamp(settings.*number.member, number.least, number.most);
  });
  if (!internal::AddressError(settings.address).empty()) settings.address.clear();
  return settings;
}

std::vector<std::string> internal::Validate(const Settings& settings) {
  Errors errors = settings.environment_errors;
  CheckTexts(settings, &errors);
  CheckRanks(settings, &errors);
  if (!internal::IsKnown(settings.log_strategy)) {
    errors.push_back(absl::StrCat("log_strategy is ", static_cast<int>(settings.log_strategy),
                                  "; use kMain, kNode or kAll; Init() uses kMain"));
  }
  for (const internal::TextSetting& text : internal::kTextSettings) {
    const std::string& value = settings.*text.member;
    if (text.choices.empty() || value.empty()) continue;
    CheckOneOf(text.name, value, text.choices, "leaves it unset", &errors);
  }
  const std::vector<std::string>& destinations = settings.destinations;
  if (destinations.size() > internal::kMaxDestinations) {
    errors.push_back(absl::StrCat("there are ", destinations.size(),
                                  " destinations; Init() uses the first ",
                                  internal::kMaxDestinations));
  }
  const bool any_name =
      std::any_of(destinations.begin(), destinations.end(), internal::IsDestinationName);
  for (const std::string& item : destinations) {
    if (internal::IsDestinationName(item)) continue;
    errors.push_back(absl::StrCat("a destination is \"", item,
                                  "\"; use a name such as wandb or local; Init() ",
                                  any_name ? "leaves it out" : "uses local"));
  }
  for (std::string& error : internal::RankStatisticsErrors(settings.rank_statistics)) {
    errors.push_back(std::move(error));
  }
  internal::ForEachNumberSetting(
      [&](const auto& number) { CheckNumber(number, settings.*number.member, &errors); });
  const std::string address_error = internal::AddressError(settings.address);
  if (!address_error.empty()) {
    errors.push_back(address_error + "; Init() uses the default address");
  }
  return errors;
}

}  // namespace ranklog
