#include "service/ingest/ring/convert.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/host_port.h"
#include "service/base/peer_defaults.h"
#include "service/base/status_macros.h"
#include "service/base/text/utf8.h"
#include "service/deliver/destination.h"

namespace ranklog::ingest {
namespace {

constexpr size_t kMaxUnnamed = 1024;  // text for people
constexpr size_t kMaxBootId = 64;     // the kernel's has 36 characters

template <typename T>
std::vector<std::string> Strings(const T& field) {
  return {field.begin(), field.end()};
}

absl::StatusOr<model::LogStrategy> ToStrategy(v1::LogStrategy strategy) {
  switch (strategy) {
    case v1::LOG_STRATEGY_UNSPECIFIED:
    case v1::LOG_STRATEGY_MAIN:
      return model::LogStrategy::kMain;
    case v1::LOG_STRATEGY_NODE:
      return model::LogStrategy::kNode;
    case v1::LOG_STRATEGY_ALL:
      return model::LogStrategy::kAll;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("unknown log strategy ", static_cast<int>(strategy)));
  }
}

absl::StatusOr<model::RunSettings> ToSettings(const v1::RunSettings& settings) {
  ASSIGN_OR_RETURN(model::LogStrategy strategy, ToStrategy(settings.strategy()));
  return model::RunSettings{
      .entity = settings.entity(),
      .name = settings.name(),
      .group = settings.group(),
      .job_type = settings.job_type(),
      .notes = settings.notes(),
      .tags = Strings(settings.tags()),
      .strategy = strategy,
      .destinations = {},
      .rank_statistics = Strings(settings.rank_statistics()),
      .rank_statistic_rules = Strings(settings.rank_statistic_rules()),
      .destination_settings = {},
      .host = settings.host(),
      .program = settings.program(),
      .resume = settings.resume(),
      .start_time_us = settings.start_time_us(),
      .no_metadata = settings.no_metadata(),
      .no_system_metrics = settings.no_system_metrics(),
      .name_pattern = settings.name_pattern(),
      // What cannot be read counts as unknown: only statistics depend on it.
      .home = ParseHostPort(settings.home(), DefaultPeerPort()) ? settings.home() : ""};
}

// Mistakes are reported and refuse nothing: the rows can be delivered later.
void AddDestinations(const v1::Hello& hello, model::Session* session) {
  model::RunSettings& settings = session->settings;
  bool any_chosen = false;
  for (const v1::Destination& given : hello.settings().destinations()) {
    any_chosen |= given.chosen();
    const deliver::Destination* const destination = deliver::FindDestination(given.kind());
    if (destination == nullptr && given.kind() != "local") {
      session->mistakes.push_back(absl::StrCat("unknown destination \"", given.kind(), "\"; use ",
                                               deliver::KindsText(), "; it is ignored"));
      continue;
    }
    if (given.chosen()) settings.destinations.push_back(given.kind());
    if (destination == nullptr) continue;
    std::map<std::string, std::string> known = destination->SettingsOf(
        {given.settings().begin(), given.settings().end()}, &session->mistakes);
    if (!known.empty()) settings.destination_settings[given.kind()] = std::move(known);
    const std::string url = destination->VariableOf(destination->words().url_setting);
    const std::string mistake = destination->UserInUrl();
    const bool is_new = std::find(session->mistakes.begin(), session->mistakes.end(), mistake) ==
                        session->mistakes.end();
    if (hello.credentials().contains(url) && is_new) session->mistakes.push_back(mistake);
  }
  if (any_chosen && settings.destinations.empty()) {
    settings.destinations = {"local"};
    session->mistakes.push_back(
        absl::StrCat("so the rows stay on this node until `ranklog sync {run} --to ",
                     deliver::UsualDestination().kind(), "`"));
  }
}

absl::StatusOr<model::Json> ToJson(const v1::Value& value, size_t depth);

absl::StatusOr<model::Json> ToJson(const v1::Object& object, size_t depth) {
  if (depth > kMaxConfigDepth) {
    return absl::InvalidArgumentError(absl::StrCat("nested deeper than ", kMaxConfigDepth));
  }
  model::Json json = model::Json::object();
  for (const v1::Field& field : object.fields()) {
    ASSIGN_OR_RETURN(json[field.key()], ToJson(field.value(), depth + 1));
  }
  return json;
}

absl::StatusOr<model::Json> ToJson(const v1::Value& value, size_t depth) {
  if (depth > kMaxConfigDepth) {
    return absl::InvalidArgumentError(absl::StrCat("nested deeper than ", kMaxConfigDepth));
  }
  switch (value.kind_case()) {
    case v1::Value::kNumber:
      return model::Json(value.number());
    case v1::Value::kInteger:
      return model::Json(value.integer());
    case v1::Value::kUnsignedInteger:
      return model::Json(value.unsigned_integer());
    case v1::Value::kFlag:
      return model::Json(value.flag());
    case v1::Value::kText:
      return model::Json(value.text());
    case v1::Value::kObject:
      return ToJson(value.object(), depth);
    case v1::Value::kList: {
      model::Json list = model::Json::array();
      for (const v1::Value& element : value.list().values()) {
        ASSIGN_OR_RETURN(model::Json converted, ToJson(element, depth + 1));
        list.push_back(std::move(converted));
      }
      return list;
    }
    default:
      return model::Json(nullptr);
  }
}

absl::StatusOr<model::Item> Single(model::Item::Kind kind, const v1::Object& object,
                                   model::Item item) {
  item.kind = kind;
  ASSIGN_OR_RETURN(item.object, ToJson(object, 0));
  return item;
}

// Computes running sums of the deltas. Uses unsigned arithmetic, because untrusted deltas could
// overflow a signed sum. model::Validate checks the result.
template <typename T>
std::vector<int64_t> Sums(const T& deltas) {
  std::vector<int64_t> sums;
  sums.reserve(static_cast<size_t>(deltas.size()));
  uint64_t sum = 0;
  for (int64_t delta : deltas) {
    sum += static_cast<uint64_t>(delta);
    sums.push_back(static_cast<int64_t>(sum));
  }
  return sums;
}

model::Block ToBlock(const v1::Block& block) {
  model::Block converted;
  converted.shape = block.shape();
  converted.commits = block.commits();
  converted.counted = block.counted();
  converted.offsets.assign(block.seq_offset().begin(), block.seq_offset().end());
  converted.steps = Sums(block.step_delta());
  converted.times_us = Sums(block.time_delta_us());
  converted.values.assign(block.value().begin(), block.value().end());
  converted.texts.reserve(static_cast<size_t>(block.text_size()));
  for (const v1::Text& text : block.text()) {
    converted.texts.push_back(
        {.row = text.row(), .key = text.key(), .value = text.value(), .json = text.json()});
  }
  return converted;
}

}  // namespace

absl::StatusOr<model::Session> ToSession(const v1::Hello& hello) {
  if (hello.protocol() != v1::kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ranklogd ", RANKLOG_VERSION, " speaks protocol ", v1::kProtocolVersion,
        ", the rank's libranklog ", hello.identity().client_version(), " protocol ",
        hello.protocol(),
        "; run the ranklogd that came with the library; until then its rows stay in the spool"));
  }
  model::Session session;
  session.stream = ToStreamKey(hello.stream());
  ASSIGN_OR_RETURN(session.settings, ToSettings(hello.settings()));
  AddDestinations(hello, &session);
  const v1::Identity& identity = hello.identity();
  session.identity = {.local_rank = identity.local_rank(),
                      .world_size = identity.world_size(),
                      .local_world_size = identity.local_world_size(),
                      .node_rank = identity.node_rank(),
                      .node = identity.node(),
                      .pid = identity.pid(),
                      .thread = identity.thread(),
                      .client_version = identity.client_version(),
                      .began_us = static_cast<int64_t>(identity.began_us()),
                      .boot_id = identity.boot_id().substr(0, kMaxBootId)};
  session.unnamed = ToUtf8(hello.ring().unnamed().substr(0, kMaxUnnamed));
  if (hello.first_seq() != 0) session.first_seq = hello.first_seq();
  if (hello.first_item() != 0) session.first_item = hello.first_item();
  if (const v1::Launch& launch = hello.launch(); !launch.id().empty()) {
    session.launch = {.id = launch.id(),
                      .given_id = hello.stream().job_id(),
                      .id_given = launch.id_given(),
                      .restarts_ranks = launch.restarts_ranks(),
                      .restart = launch.restart(),
                      .whole_node = launch.whole_node(),
                      .batch_job = launch.batch_job(),
                      .requeue = launch.requeue(),
                      .process = launch.process(),
                      .unseen = launch.unseen()};
  }
  session.attached = hello.attached();
  session.no_rows = hello.no_rows();
  RETURN_IF_ERROR(model::Validate(session));
  return session;
}

model::StreamKey ToStreamKey(const v1::StreamId& id) {
  return {.project = id.project(),
          .job_id = id.job_id(),
          .rank = id.rank(),
          .incarnation = id.incarnation()};
}

absl::StatusOr<model::Batch> ToBatch(const v1::Batch& batch) {
  model::Batch converted{.first = batch.first_seq(), .last = batch.last_seq(), .blocks = {}};
  if (converted.first == 0) return absl::InvalidArgumentError("rows are numbered from 1");
  converted.blocks.reserve(static_cast<size_t>(batch.block_size()));
  for (const v1::Block& block : batch.block()) converted.blocks.push_back(ToBlock(block));
  RETURN_IF_ERROR(model::Validate(converted));
  return converted;
}

absl::StatusOr<model::Item> ToItem(const v1::Item& item) {
  model::Item converted{.seq = item.seq(),
                        .time_us = item.time_us(),
                        .after_row = item.after_row(),
                        .called_us = item.called_us()};
  switch (item.content_case()) {
    case v1::Item::kConfig: {
      converted.kind = model::Item::Kind::kConfig;
      ASSIGN_OR_RETURN(converted.object, ToJson(item.config(), 0));
      return converted;
    }
    case v1::Item::kSummary: {
      converted.kind = model::Item::Kind::kSummary;
      ASSIGN_OR_RETURN(converted.object, ToJson(item.summary(), 0));
      if (item.has_before_step()) converted.before_step = item.before_step();
      return converted;
    }
    case v1::Item::kMetadata: {
      converted.kind = model::Item::Kind::kMetadata;
      ASSIGN_OR_RETURN(converted.object, ToJson(item.metadata(), 0));
      return converted;
    }
    case v1::Item::kAlert:
      return Single(model::Item::Kind::kAlert, item.alert(), std::move(converted));
    case v1::Item::kArtifact:
      return Single(model::Item::Kind::kArtifact, item.artifact(), std::move(converted));
    case v1::Item::kRunFile:
      return Single(model::Item::Kind::kRunFile, item.run_file(), std::move(converted));
    case v1::Item::kConsole:
      converted.kind = model::Item::Kind::kConsole;
      for (const v1::ConsoleLine& line : item.console().line()) {
        converted.console.push_back({.number = line.number(),
                                     .time_us = line.time_us(),
                                     .error = line.error(),
                                     .text = line.text()});
      }
      return converted;
    case v1::Item::kPreempting:
      converted.kind = model::Item::Kind::kPreempting;
      converted.object = model::Json::object();
      return converted;
    case v1::Item::kMetric: {
      const v1::MetricDefinition& metric = item.metric();
      if (metric.name().empty()) return absl::InvalidArgumentError("a metric without a name");
      converted.kind = model::Item::Kind::kMetric;
      converted.metric = {.name = metric.name(),
                          .step_metric = metric.step_metric(),
                          .step_sync = metric.step_sync(),
                          .hidden = metric.hidden(),
                          .summary = Strings(metric.summary()),
                          .goal = metric.goal()};
      return converted;
    }
    default:
      return absl::InvalidArgumentError("an item without content");
  }
}

model::Item ToItemOrUnreadable(const v1::Item& item) {
  absl::StatusOr<model::Item> converted = ToItem(item);
  if (converted.ok()) return *std::move(converted);
  spdlog::warn("dropped item {} of a rank: {}", item.seq(),
               std::string(converted.status().message()));
  return {.seq = item.seq(), .kind = model::Item::Kind::kUnreadable};
}

model::Losses ToLosses(const v1::Losses& losses) {
  return {.ring_full = losses.ring_full(),
          .invalid = losses.invalid(),
          .step_behind = losses.step_behind(),
          .too_large = losses.too_large(),
          .after_finish = losses.after_finish(),
          .items = losses.items(),
          .values = losses.values()};
}

model::Losses ToLosses(const v1::SpoolHeader& ring) {
  return {.ring_full = ring.lost_ring_full.load(),
          .invalid = ring.lost_invalid.load(),
          .step_behind = ring.lost_step_behind.load(),
          .too_large = ring.lost_too_large.load(),
          .after_finish = ring.lost_after_finish.load(),
          .items = ring.lost_items.load(),
          .values = ring.lost_values.load()};
}

}  // namespace ranklog::ingest
