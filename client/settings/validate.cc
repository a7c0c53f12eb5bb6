#include "client/settings/validate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/base/keys.h"
#include "client/base/short_name.h"
#include "client/settings/environment.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/socket_address.h"
#include "ranklog/v1/base_url.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog {
namespace {

// Limits that keep the Hello well below its space in the ring.
constexpr size_t kMaxTextBytes = 1024;
constexpr size_t kMaxNotesBytes = 16 << 10;
constexpr size_t kMaxTags = 32;
constexpr size_t kMaxTagBytes = 256;
constexpr size_t kMaxProjectBytes = 128;
constexpr size_t kMaxProgramBytes = 4096;
constexpr char kNotInProject[] = "/\\#?%:";
constexpr std::chrono::milliseconds kLeastFlush{1}, kMostFlush{60000};
constexpr std::chrono::milliseconds kLeastFinish{0}, kMostFinish{3600000};
constexpr std::chrono::milliseconds kMostDelivery{24 * 3600000};
constexpr std::array<const char*, 4> kResumes = {"allow", "must", "never", "auto"};
constexpr std::array<const char*, 2> kDestinations = {"wandb", "local"};

using Errors = std::vector<std::string>;

void CheckText(const char* name, const std::string& value, size_t max_bytes, Errors* errors) {
  if (!internal::IsUtf8(value)) {
    errors->push_back(absl::StrCat(name, " is not UTF-8"));
  } else if (value.find('\0') != std::string::npos) {
    errors->push_back(absl::StrCat(name, " contains a zero byte"));
  } else if (value.size() > max_bytes) {
    errors->push_back(absl::StrCat(name, " is longer than ", max_bytes, " bytes"));
  }
}

template <typename Items>
void CheckOneOf(const char* name, const std::string& value, const Items& allowed, Errors* errors) {
  const bool found =
      std::any_of(allowed.begin(), allowed.end(), [&](const char* item) { return value == item; });
  if (!found) {
    errors->push_back(
        absl::StrCat(name, " is \"", value, "\"; use one of ", absl::StrJoin(allowed, ", ")));
  }
}

void CheckRange(const char* name, int64_t value, int64_t from, int64_t to, Errors* errors) {
  if (value < from || value > to) {
    errors->push_back(absl::StrCat(name, " is ", value, ", not between ", from, " and ", to));
  }
}

bool HasBlank(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c <= ' ' || c == 0x7f; });
}

// The server decides whether the key is valid.
void CheckTracker(const Settings& settings, Errors* errors) {
  for (const auto& [name, value] : settings.credentials) {
    if (HasBlank(internal::Trimmed(value))) {
      errors->push_back(name + " contains a space or a control character");
    }
  }
  const std::string given = internal::Trimmed(settings.base_url);
  if (given.empty()) return;
  const std::string url = v1::WithoutUser(given);
  if (url != given) {
    errors->push_back(
        "base_url contains a user or a password, or an @; this part is ignored; set WANDB_API_KEY");
  }
  if (url.rfind("http://", 0) != 0 && url.rfind("https://", 0) != 0) {
    errors->push_back(absl::StrCat("base_url is \"", url, "\", which has no http:// or https://"));
  } else if (HasBlank(url)) {
    errors->push_back("base_url contains a space or a control character");
  }
}

void CheckTexts(const Settings& settings, Errors* errors) {
  CheckText("project", settings.project, kMaxProjectBytes, errors);
  if (settings.project.find_first_of(kNotInProject) != std::string::npos) {
    errors->push_back("project contains one of / \\ # ? % :, which the trackers refuse");
  }
  CheckText("entity", settings.entity, kMaxTextBytes, errors);
  CheckText("name", settings.name, kMaxTextBytes, errors);
  CheckText("group", settings.group, kMaxTextBytes, errors);
  CheckText("job_type", settings.job_type, kMaxTextBytes, errors);
  CheckText("notes", settings.notes, kMaxNotesBytes, errors);
  CheckText("program", settings.program, kMaxProgramBytes, errors);
  CheckText("host", settings.host, kMaxTextBytes, errors);
  CheckText("node", settings.node, kMaxTextBytes, errors);
  CheckText("base_url", settings.base_url, kMaxTextBytes, errors);
  for (const std::string& tag : settings.tags) CheckText("a tag", tag, kMaxTagBytes, errors);
  if (settings.tags.size() > kMaxTags) {
    errors->push_back(absl::StrCat("there are more than ", kMaxTags, " tags"));
  }
  for (const auto& [name, value] : settings.credentials) {
    CheckText("a credential's name", name, kMaxTextBytes, errors);
    CheckText(name.c_str(), value, kMaxTextBytes, errors);
  }
  if (!settings.run_id.empty() && !internal::IsRunId(settings.run_id)) {
    const bool dots = settings.run_id.find_first_not_of('.') == std::string::npos;
    errors->push_back(absl::StrCat(
        "run_id is \"", settings.run_id,
        dots ? "\", which has only dots" : "\", not 1 to 128 of the characters A-Z a-z 0-9 _ - ."));
  }
}

void CheckRanks(const Settings& settings, Errors* errors) {
  if (settings.rank.has_value() != settings.world_size.has_value()) {
    errors->push_back(settings.rank ? "rank is set but world_size is not; set both or none"
                                    : "world_size is set but rank is not; set both or none");
    return;
  }
  const int rank = settings.rank.value_or(0);
  const int world_size = settings.world_size.value_or(1);
  if (rank < 0 || world_size < 1 || rank >= world_size) {
    errors->push_back(absl::StrCat("rank ", rank, " is not below world_size ", world_size));
  }
  if (settings.local_world_size &&
      (*settings.local_world_size < 1 || *settings.local_world_size > world_size)) {
    errors->push_back(absl::StrCat("local_world_size ", *settings.local_world_size,
                                   " is not between 1 and world_size ", world_size));
  }
  const int local_world_size = settings.local_world_size.value_or(world_size);
  if (settings.local_rank &&
      (*settings.local_rank < 0 || *settings.local_rank >= local_world_size)) {
    errors->push_back(absl::StrCat("local_rank ", *settings.local_rank,
                                   " is not below local_world_size ", local_world_size));
  }
  if (settings.node_rank && (*settings.node_rank < 0 || *settings.node_rank >= world_size)) {
    errors->push_back(
        absl::StrCat("node_rank ", *settings.node_rank, " is not below world_size ", world_size));
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

void CleanTexts(Settings* settings) {
  CleanText(&settings->project, kMaxProjectBytes);
  for (char& c : settings->project) {
    if (std::string_view(kNotInProject).find(c) != std::string_view::npos) c = '-';
  }
  for (std::string* text :
       {&settings->entity, &settings->name, &settings->group, &settings->job_type, &settings->host,
        &settings->node, &settings->base_url}) {
    CleanText(text, kMaxTextBytes);
  }
  CleanText(&settings->notes, kMaxNotesBytes);
  CleanText(&settings->program, kMaxProgramBytes);
  if (settings->tags.size() > kMaxTags) settings->tags.resize(kMaxTags);
  for (std::string& tag : settings->tags) CleanText(&tag, kMaxTagBytes);
  for (auto& [name, value] : settings->credentials) CleanText(&value, kMaxTextBytes);
  std::string& id = settings->run_id;
  if (id.empty() || internal::IsRunId(id)) return;
  // Different ids must stay different.
  const std::string mark = absl::StrCat("-", internal::HashName(id));
  for (char& c : id) {
    if (!internal::IsRunId(std::string_view(&c, 1)) && c != '.') c = '-';
  }
  id = id.substr(0, 100) + mark;
}

// The rank does not change, because the rows are stored under it.
void RepairRanks(Settings* settings) {
  if (internal::RankErrors(*settings).empty()) return;
  const int rank = std::max(settings->rank.value_or(0), 0);
  settings->rank = rank;
  settings->world_size = std::max(settings->world_size.value_or(1), rank + 1);
  settings->local_rank.reset();
  settings->local_world_size.reset();
  settings->node_rank.reset();
}

template <typename Items>
bool KeepKnown(Items known, std::vector<std::string>* items) {
  const size_t before = items->size();
  items->erase(std::remove_if(items->begin(), items->end(),
                              [&](const std::string& item) {
                                return std::find(known.begin(), known.end(), item) == known.end();
                              }),
               items->end());
  return items->size() == before;
}

}  // namespace

bool internal::IsRunId(std::string_view text) {
  return text.size() <= 128 &&
         text.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") ==
             std::string_view::npos &&
         text.find_first_not_of('.') != std::string_view::npos;
}

Errors internal::RankErrors(const Settings& settings) {
  Errors errors;
  CheckRanks(settings, &errors);
  return errors;
}

Settings internal::Repair(Settings settings) {
  CleanTexts(&settings);
  RepairRanks(&settings);
  if (std::find(kResumes.begin(), kResumes.end(), settings.resume) == kResumes.end()) {
    settings.resume.clear();
  }
  if (!KeepKnown(kDestinations, &settings.destinations) && settings.destinations.empty()) {
    settings.destinations = {"local"};
  }
  settings.rank_statistics = internal::RepairRankStatistics(settings.rank_statistics);
  settings.spool_bytes =
      std::clamp<size_t>(settings.spool_bytes, v1::kMinRingBytes, v1::kMaxRingBytes);
  settings.flush_interval = std::clamp(settings.flush_interval, kLeastFlush, kMostFlush);
  settings.finish_timeout = std::clamp(settings.finish_timeout, kLeastFinish, kMostFinish);
  settings.delivery_timeout = std::clamp(settings.delivery_timeout, kLeastFinish, kMostDelivery);
  if (!internal::AddressError(settings.address).empty()) settings.address.clear();
  return settings;
}

std::vector<std::string> Settings::Validate() const {
  Errors errors = environment_errors;
  CheckTexts(*this, &errors);
  CheckTracker(*this, &errors);
  CheckRanks(*this, &errors);
  if (!resume.empty()) CheckOneOf("resume", resume, kResumes, &errors);
  for (const std::string& item : destinations) {
    CheckOneOf("a destination", item, kDestinations, &errors);
  }
  for (std::string& error : internal::RankStatisticsErrors(rank_statistics)) {
    errors.push_back(std::move(error));
  }
  CheckRange("spool_bytes", static_cast<int64_t>(spool_bytes), v1::kMinRingBytes, v1::kMaxRingBytes,
             &errors);
  CheckRange("flush_interval in ms", flush_interval.count(), kLeastFlush.count(),
             kMostFlush.count(), &errors);
  CheckRange("finish_timeout in ms", finish_timeout.count(), kLeastFinish.count(),
             kMostFinish.count(), &errors);
  CheckRange("delivery_timeout in ms", delivery_timeout.count(), kLeastFinish.count(),
             kMostDelivery.count(), &errors);
  const std::string address_error = internal::AddressError(address);
  if (!address_error.empty()) errors.push_back(address_error);
  return errors;
}

}  // namespace ranklog
