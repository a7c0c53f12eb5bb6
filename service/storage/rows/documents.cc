#include "service/storage/rows/documents.h"

#include <cstdint>
#include <string>
#include <vector>

#include "service/base/status_macros.h"
#include "service/storage/rows/batch_codec.h"

namespace ranklog::storage {
namespace {

using model::Json;

// The fields of two documents, in their order: visit(key, member) for each.
template <typename Settings, typename Visit>
void ForEachSetting(Settings& settings, const Visit& visit) {
  visit("entity", settings.entity);
  visit("name", settings.name);
  visit("group", settings.group);
  visit("job_type", settings.job_type);
  visit("notes", settings.notes);
  visit("tags", settings.tags);
  visit("strategy", settings.strategy);
  visit("destinations", settings.destinations);
  visit("rank_statistics", settings.rank_statistics);
  visit("rank_statistic_rules", settings.rank_statistic_rules);
  visit("destination_settings", settings.destination_settings);
  visit("host", settings.host);
  visit("program", settings.program);
  visit("resume", settings.resume);
  visit("start_time_us", settings.start_time_us);
  visit("no_metadata", settings.no_metadata);
  visit("no_system_metrics", settings.no_system_metrics);
  visit("name_pattern", settings.name_pattern);
  visit("home", settings.home);
  visit("imported", settings.imported);
}

template <typename Metric, typename Visit>
void ForEachMetricField(Metric& metric, const Visit& visit) {
  visit("name", metric.name);
  visit("step_metric", metric.step_metric);
  visit("step_sync", metric.step_sync);
  visit("hidden", metric.hidden);
  visit("summary", metric.summary);
  visit("goal", metric.goal);
}

auto WriteTo(Json& document) {
  return [&document](const char* key, const auto& member) { document[key] = member; };
}

// Reads fields. A member stays as it is if its field is absent, or has another type.
struct ReadFrom {
  const Json& document;

  template <typename T>
  void operator()(const char* key, T& member) const {
    const auto found = document.find(key);
    const T* const value = found == document.end() ? nullptr : found->template get_ptr<const T*>();
    if (value != nullptr) member = *value;
  }
  void operator()(const char* key, std::vector<std::string>& texts) const {
    const auto found = document.find(key);
    if (found == document.end() || !found->is_array()) return;
    for (const Json& element : *found) {
      if (element.is_string()) texts.push_back(element.get<std::string>());
    }
  }
  void operator()(const char* key, model::DestinationSettings& settings) const {
    const auto found = document.find(key);
    if (found == document.end() || !found->is_object()) return;
    for (const auto& [kind, members] : found->items()) {
      if (!members.is_object()) continue;
      for (const auto& [name, value] : members.items()) {
        if (value.is_string()) settings[kind][name] = value.template get<std::string>();
      }
    }
  }
  void operator()(const char* key, model::LogStrategy& strategy) const {
    int64_t number = 0;
    (*this)(key, number);
    strategy = static_cast<model::LogStrategy>(number);
  }
};

// Whether the bytes are one value in the part of CBOR that to_cbor() writes, with plausible counts
// and limited nesting. The library throws at a count that exceeds memory, and recurses to any depth
// that the bytes demand.
bool IsDocument(absl::string_view bytes) {
  constexpr size_t kMaxDepth = 128;  // twice what ranks may send
  enum Major : uint8_t { kPositive, kNegative, kBytes, kText, kArray, kMap, kTag, kSimple };
  struct Container {
    uint64_t left;  // remaining values, including keys
    bool map;
  };
  std::vector<Container> open = {{1, false}};
  while (!open.empty()) {
    if (open.back().left == 0) {
      open.pop_back();
      continue;
    }
    if (bytes.empty()) return false;
    const bool key = open.back().map && open.back().left % 2 == 0;
    --open.back().left;
    const auto first = static_cast<uint8_t>(bytes[0]);
    const auto major = static_cast<Major>(first >> 5);
    const uint8_t info = first & 31;
    bytes.remove_prefix(1);
    const size_t size = info < 24 ? 0 : info < 28 ? size_t{1} << (info - 24) : SIZE_MAX;
    if (size > bytes.size() || (key && major != kText)) return false;
    uint64_t value = info;
    if (size > 0) value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    bytes.remove_prefix(size);
    switch (major) {
      case kPositive:
      case kNegative:
        break;
      case kText:
        if (value > bytes.size()) return false;
        bytes.remove_prefix(value);
        break;
      case kArray:
      case kMap:
        if (value > bytes.size() || open.size() > kMaxDepth) return false;
        open.push_back({major == kMap ? 2 * value : value, major == kMap});
        break;
      case kSimple:  // false, true, null, or a float
        if (info < 20 || info > 27 || info == 23 || info == 24) return false;
        break;
      default:
        return false;
    }
  }
  return bytes.empty();
}

}  // namespace

std::string EncodeDocument(const Json& document) {
  std::string bytes;
  Json::to_cbor(document, bytes);
  return Sealed(bytes);
}

absl::StatusOr<Json> DecodeDocument(absl::string_view blob) {
  ASSIGN_OR_RETURN(const absl::string_view bytes, Unsealed(blob));
  if (!IsDocument(bytes)) return absl::DataLossError("a damaged document in the store");
  Json document = Json::from_cbor(bytes.begin(), bytes.end(), /*strict=*/true,
                                  /*allow_exceptions=*/false);
  if (document.is_discarded()) return absl::DataLossError("a damaged document in the store");
  return document;
}

std::string EncodeSettings(const model::RunSettings& settings) {
  Json document = Json::object();
  ForEachSetting(settings, WriteTo(document));
  return EncodeDocument(document);
}

absl::StatusOr<model::RunSettings> DecodeSettings(absl::string_view blob) {
  ASSIGN_OR_RETURN(const Json document, DecodeDocument(blob));
  const ReadFrom read{document};
  int64_t strategy = 0;
  read("strategy", strategy);
  if (strategy < 0 || strategy > static_cast<int64_t>(model::LogStrategy::kAll)) {
    return absl::DataLossError("damaged settings in the store: unknown strategy");
  }
  model::RunSettings settings;
  ForEachSetting(settings, read);
  // Until the settings of a destination had a map, there was one destination with one setting.
  std::string base_url;
  read("base_url", base_url);
  if (!base_url.empty()) settings.destination_settings["wandb"]["base_url"] = base_url;
  return settings;
}

namespace {

void ReadIntegers(const Json& document, const char* name, std::map<std::string, int64_t>* into) {
  const auto found = document.find(name);
  if (found == document.end()) return;
  for (const auto& [key, value] : found->items()) {
    if (value.is_number_integer()) (*into)[key] = value.get<int64_t>();
  }
}

}  // namespace

std::string EncodeItem(const model::Item& item) {
  switch (item.kind) {
    case model::Item::Kind::kMetric: {
      Json document = Json::object();
      ForEachMetricField(item.metric, WriteTo(document));
      return EncodeDocument(document);
    }
    case model::Item::Kind::kSummary: {
      Json document = {{"before_step", item.before_step}, {"summary", item.object}};
      if (!item.before_steps.empty()) document["before_steps"] = item.before_steps;
      return EncodeDocument(document);
    }
    default:
      return EncodeDocument(item.object);
  }
}

std::string EncodeCalled(const model::Item& item) {
  if (item.called_us == 0 && item.called_us_of.empty()) return "";
  Json document = {{"all", item.called_us}};
  if (!item.called_us_of.empty()) document["keys"] = item.called_us_of;
  return EncodeDocument(document);
}

absl::StatusOr<model::Item> DecodeItem(int64_t kind, absl::string_view blob,
                                       absl::string_view called) {
  ASSIGN_OR_RETURN(Json document, DecodeDocument(blob));
  model::Item item;
  item.kind = static_cast<model::Item::Kind>(kind);
  if (!called.empty()) {
    ASSIGN_OR_RETURN(const Json times, DecodeDocument(called));
    ReadFrom{times}("all", item.called_us);
    ReadIntegers(times, "keys", &item.called_us_of);
  }
  if (item.kind == model::Item::Kind::kMetric) {
    ForEachMetricField(item.metric, ReadFrom{document});
    return item;
  }
  if (item.kind == model::Item::Kind::kSummary) {
    item.before_step = 0;
    ReadFrom{document}("before_step", item.before_step);
    ReadIntegers(document, "before_steps", &item.before_steps);
    Json summary = document.is_object() ? std::move(document["summary"]) : Json();
    document = std::move(summary);
  }
  const bool is_known =
      item.kind > model::Item::Kind::kUnreadable && item.kind <= model::Item::Kind::kRunFile;
  if (!is_known || !document.is_object()) {
    return absl::DataLossError("a damaged item in the store");
  }
  item.object = std::move(document);
  return item;
}

}  // namespace ranklog::storage
