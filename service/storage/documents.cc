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
                         {"base_url", settings.base_url},
                         {"host", settings.host},
                         {"program", settings.program},
                         {"resume", settings.resume},
                         {"start_time_us", settings.start_time_us}});
}

absl::StatusOr<model::RunSettings> DecodeSettings(absl::string_view blob) {
  ASSIGN_OR_RETURN(const Json document, DecodeDocument(blob));
  model::RunSettings settings;
  settings.entity = TextOf(document, "entity");
  settings.name = TextOf(document, "name");
  settings.group = TextOf(document, "group");
  settings.job_type = TextOf(document, "job_type");
  settings.notes = TextOf(document, "notes");
  settings.tags = TextsOf(document, "tags");
  settings.strategy = static_cast<model::LogStrategy>(IntegerOf(document, "strategy"));
  settings.destinations = TextsOf(document, "destinations");
  settings.rank_statistics = TextsOf(document, "rank_statistics");
  settings.base_url = TextOf(document, "base_url");
  settings.host = TextOf(document, "host");
  settings.program = TextOf(document, "program");
  settings.resume = TextOf(document, "resume");
  settings.start_time_us = IntegerOf(document, "start_time_us");
  return settings;
}

std::string EncodeUpdate(const model::Update& update) {
  return EncodeDocument(update.kind == model::Update::Kind::kMetric ? MetricDocument(update.metric)
                                                                    : update.object);
}

absl::StatusOr<model::Update> DecodeUpdate(int64_t kind, absl::string_view blob) {
  ASSIGN_OR_RETURN(Json document, DecodeDocument(blob));
  model::Update update;
  update.kind = static_cast<model::Update::Kind>(kind);
  if (update.kind == model::Update::Kind::kMetric) {
    update.metric = MetricOf(document);
  } else {
    update.object = std::move(document);
  }
  return update;
}

}  // namespace ranklog::storage
