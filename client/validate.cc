// Settings::Validate(): every error, a sentence each.

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/keys.h"
#include "client/socket_address.h"
#include "ranklog/settings.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog {
namespace {

// So that the Hello fits its place in the ring with room to spare.
constexpr size_t kMaxTextBytes = 1024;
constexpr size_t kMaxNotesBytes = 16 << 10;
constexpr size_t kMaxTags = 32;

using Errors = std::vector<std::string>;

void CheckText(const char* name, const std::string& value, size_t max_bytes, Errors* errors) {
  if (!internal::IsUtf8(value)) {
    errors->push_back(absl::StrCat(name, " is not UTF-8"));
  } else if (value.find('\0') != std::string::npos) {
    errors->push_back(absl::StrCat(name, " holds a zero byte"));
  } else if (value.size() > max_bytes) {
    errors->push_back(absl::StrCat(name, " is longer than ", max_bytes, " bytes"));
  }
}

void CheckOneOf(const char* name, const std::string& value,
                std::initializer_list<const char*> allowed, Errors* errors) {
  const bool found =
      std::any_of(allowed.begin(), allowed.end(), [&](const char* item) { return value == item; });
  if (!found) {
    errors->push_back(
        absl::StrCat(name, " is \"", value, "\", none of ", absl::StrJoin(allowed, ", ")));
  }
}

void CheckRange(const char* name, int64_t value, int64_t from, int64_t to, Errors* errors) {
  if (value < from || value > to) {
    errors->push_back(absl::StrCat(name, " is ", value, ", not within ", from, " and ", to));
  }
}

void CheckTexts(const Settings& settings, Errors* errors) {
  CheckText("project", settings.project, 128, errors);
  if (settings.project.find_first_of("/\\#?%:") != std::string::npos) {
    errors->push_back("project holds one of / \\ # ? % :, which the trackers refuse");
  }
  CheckText("entity", settings.entity, kMaxTextBytes, errors);
  CheckText("name", settings.name, kMaxTextBytes, errors);
  CheckText("group", settings.group, kMaxTextBytes, errors);
  CheckText("job_type", settings.job_type, kMaxTextBytes, errors);
  CheckText("notes", settings.notes, kMaxNotesBytes, errors);
  CheckText("program", settings.program, 4096, errors);
  CheckText("host", settings.host, kMaxTextBytes, errors);
  CheckText("node", settings.node, kMaxTextBytes, errors);
  CheckText("base_url", settings.base_url, kMaxTextBytes, errors);
  for (const std::string& tag : settings.tags) CheckText("a tag", tag, 256, errors);
  if (settings.tags.size() > kMaxTags) {
    errors->push_back(absl::StrCat("there are more than ", kMaxTags, " tags"));
  }
  for (const auto& [name, value] : settings.credentials) {
    CheckText("a credential's name", name, kMaxTextBytes, errors);
    CheckText(name.c_str(), value, kMaxTextBytes, errors);
  }
  const bool well_formed = std::all_of(settings.run_id.begin(), settings.run_id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (!well_formed || settings.run_id.size() > 128) {
    errors->push_back("run_id is not 1 to 128 of the characters A-Z a-z 0-9 _ -");
  }
}

void CheckRanks(const Settings& settings, Errors* errors) {
  if (settings.rank.has_value() != settings.world_size.has_value()) {
    errors->push_back(settings.rank ? "rank is set but world_size is not: set both or none"
                                    : "world_size is set but rank is not: set both or none");
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
                                   " is not within 1 and world_size ", world_size));
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

}  // namespace

std::vector<std::string> Settings::Validate() const {
  Errors errors = environment_errors;
  CheckTexts(*this, &errors);
  CheckRanks(*this, &errors);
  if (!resume.empty()) CheckOneOf("resume", resume, {"allow", "must", "never", "auto"}, &errors);
  for (const std::string& item : destinations) {
    CheckOneOf("a destination", item, {"wandb", "local"}, &errors);
  }
  for (const std::string& item : rank_statistics) {
    CheckOneOf("a rank statistic", item, {"mean", "min", "max", "std", "argmin", "argmax", "none"},
               &errors);
    if (item == "none" && rank_statistics.size() > 1) {
      errors.push_back("rank_statistics says none and others");
    }
  }
  CheckRange("spool_bytes", static_cast<int64_t>(spool_bytes), v1::kMinRingBytes, v1::kMaxRingBytes,
             &errors);
  CheckRange("flush_interval in ms", flush_interval.count(), 1, 60000, &errors);
  CheckRange("finish_timeout in ms", finish_timeout.count(), 0, 3600000, &errors);
  const std::string address_error = internal::AddressError(address);
  if (!address_error.empty()) errors.push_back(address_error);
  return errors;
}

}  // namespace ranklog
