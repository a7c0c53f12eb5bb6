#include "service/storage/documents.h"

#include <cstdint>
#include <vector>

#include "service/base/status_macros.h"
#include "service/storage/batch_codec.h"

namespace ranklog::storage {
namespace {

using model::Json;

std::string TextOf(const Json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::string> TextsOf(const Json& document, const char* key) {
  std::vector<std::string> texts;
  const auto found = document.find(key);
  if (found == document.end() || !found->is_array()) return texts;
  for (const Json& element : *found) {
    if (element.is_string()) texts.push_back(element.get<std::string>());
  }
  return texts;
}

int64_t IntegerOf(const Json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

bool FlagOf(const Json& document, const char* key, bool otherwise) {
  const auto found = document.find(key);
  return found != document.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

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

Json MetricDocument(const model::MetricDefinition& metric) {
  return {{"name", metric.name},           {"step_metric", metric.step_metric},
          {"step_sync", metric.step_sync}, {"hidden", metric.hidden},
          {"summary", metric.summary},     {"goal", metric.goal}};
}

model::MetricDefinition MetricOf(const Json& document) {
  model::MetricDefinition metric;
  metric.name = TextOf(document, "name");
  metric.step_metric = TextOf(document, "step_metric");
  metric.step_sync = FlagOf(document, "step_sync", true);
  metric.hidden = FlagOf(document, "hidden", false);
  metric.summary = TextsOf(document, "summary");
  metric.goal = TextOf(document, "goal");
  return metric;
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
  return EncodeDocument({{"entity", settings.entity},
                         {"name", settings.name},
                         {"group", settings.group},
                         {"job_type", settings.job_type},
                         {"notes", settings.notes},
                         {"tags", settings.tags},
                         {"strategy", static_cast<int64_t>(settings.strategy)},
                         {"destinations", settings.destinations},
                         {"rank_statistics", settings.rank_statistics},
                         {"rank_statistic_rules", settings.rank_statistic_rules},
                         {"base_url", settings.base_url},
                         {"host", settings.host},
                         {"program", settings.program},
                         {"resume", settings.resume},
                         {"start_time_us", settings.start_time_us}});
}

absl::StatusOr<model::RunSettings> DecodeSettings(absl::string_view blob) {
  ASSIGN_OR_RETURN(const Json document, DecodeDocument(blob));
  const int64_t strategy = IntegerOf(document, "strategy");
  if (strategy < 0 || strategy > static_cast<int64_t>(model::LogStrategy::kAll)) {
    return absl::DataLossError("damaged settings in the store: unknown strategy");
  }
  model::RunSettings settings;
  settings.entity = TextOf(document, "entity");
  settings.name = TextOf(document, "name");
  settings.group = TextOf(document, "group");
  settings.job_type = TextOf(document, "job_type");
  settings.notes = TextOf(document, "notes");
  settings.tags = TextsOf(document, "tags");
  settings.strategy = static_cast<model::LogStrategy>(strategy);
  settings.destinations = TextsOf(document, "destinations");
  settings.rank_statistics = TextsOf(document, "rank_statistics");
  settings.rank_statistic_rules = TextsOf(document, "rank_statistic_rules");
  settings.base_url = TextOf(document, "base_url");
  settings.host = TextOf(document, "host");
  settings.program = TextOf(document, "program");
  settings.resume = TextOf(document, "resume");
  settings.start_time_us = IntegerOf(document, "start_time_us");
  return settings;
}

std::string EncodeUpdate(const model::Update& update) {
  switch (update.kind) {
    case model::Update::Kind::kMetric:
      return EncodeDocument(MetricDocument(update.metric));
    case model::Update::Kind::kSummary:
      return EncodeDocument({{"before_step", update.before_step}, {"summary", update.object}});
    default:
      return EncodeDocument(update.object);
  }
}

absl::StatusOr<model::Update> DecodeUpdate(int64_t kind, absl::string_view blob) {
  ASSIGN_OR_RETURN(Json document, DecodeDocument(blob));
  model::Update update;
  update.kind = static_cast<model::Update::Kind>(kind);
  if (update.kind == model::Update::Kind::kMetric) {
    update.metric = MetricOf(document);
    return update;
  }
  if (update.kind == model::Update::Kind::kSummary) {
    update.before_step = IntegerOf(document, "before_step");
    Json summary = document.is_object() ? std::move(document["summary"]) : Json();
    document = std::move(summary);
  }
  if ((update.kind != model::Update::Kind::kConfig &&
       update.kind != model::Update::Kind::kSummary) ||
      !document.is_object()) {
    return absl::DataLossError("a damaged update in the store");
  }
  update.object = std::move(document);
  return update;
}

}  // namespace ranklog::storage
