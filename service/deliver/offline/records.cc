#include "service/deliver/offline/records.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "service/deliver/offline/json_text.h"
#include "service/deliver/wandb/api/graphql.h"
#include "service/deliver/wandb/cursor.h"

namespace ranklog::deliver::offline {
namespace {

using nlohmann::json;
using wandb::At;
using wandb::TextAt;
using wandb_internal::ArtifactRecord;
using wandb_internal::EnvironmentRecord;
using wandb_internal::HistoryRecord;
using wandb_internal::MetricRecord;
using wandb_internal::RunRecord;
using wandb_internal::StatsRecord;

std::string Plain(const std::string& escaped) {
  return absl::StrReplaceAll(escaped, {{"\\.", "."}});
}

bool Has(const json& numbers, int number) {
  for (const json& one : numbers) {
    if (one == number) return true;
  }
  return false;
}

}  // namespace

google::protobuf::Timestamp TimestampOf(int64_t unix_us) {
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(unix_us / 1000000);
  timestamp.set_nanos(static_cast<int32_t>(unix_us % 1000000) * 1000);
  return timestamp;
}

HistoryRecord HistoryOf(absl::string_view line) {
  HistoryRecord history;
  for (JsonMember& member : MembersOf(line)) {
    int64_t step = 0;
    if (member.key == "_step" && absl::SimpleAtoi(member.value, &step)) {
      history.mutable_step()->set_num(step);
    }
    wandb_internal::HistoryItem* const item = history.add_item();
    item->set_key(std::move(member.key));
    item->set_value_json(std::string(member.value));
  }
  return history;
}

StatsRecord StatsOf(absl::string_view line) {
  StatsRecord stats;
  for (const JsonMember& member : MembersOf(line)) {
    double seconds = 0;
    if (member.key == "_timestamp" && absl::SimpleAtod(member.value, &seconds)) {
      *stats.mutable_timestamp() = TimestampOf(std::llround(seconds * 1e6));
    }
    absl::string_view name = member.key;
    if (!absl::ConsumePrefix(&name, "system.")) continue;
    wandb_internal::StatsItem* const item = stats.add_item();
    item->set_key(std::string(name));
    item->set_value_json(std::string(member.value));
  }
  return stats;
}

ConsoleEntry ConsoleOf(absl::string_view line) {
  const json entry = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  absl::Time time = absl::UnixEpoch();
  absl::ParseTime("%Y-%m-%dT%H:%M:%E*S", TextAt(entry, {"ts"}), &time, nullptr);
  return {.error = TextAt(entry, {"level"}) == "error",
          .text = TextAt(entry, {"content"}),
          .time = TimestampOf(absl::ToUnixMicros(time))};
}

std::vector<MetricRecord> MetricsOf(const json& list) {
  constexpr int kStepSync = 1, kHidden = 2, kDefined = 3;
  std::vector<MetricRecord> metrics;
  if (!list.is_array()) return metrics;
  for (const json& entry : list) {
    const json options = At(entry, {"6"});
    const json summary = At(entry, {"7"});
    const bool is_glob = At(entry, {"2"}).is_string();
    if (!is_glob && !Has(options, kDefined)) continue;
    MetricRecord& metric = metrics.emplace_back();
    if (is_glob) {
      metric.set_glob_name(Plain(TextAt(entry, {"2"})));
    } else {
      metric.set_name(Plain(TextAt(entry, {"1"})));
    }
    const json step = At(entry, {"5"});
    if (step.is_number_unsigned() && step <= list.size() && step > 0) {
      metric.set_step_metric(Plain(TextAt(list[step.get<size_t>() - 1], {"1"})));
    }
    metric.mutable_options()->set_step_sync(Has(options, kStepSync));
    metric.mutable_options()->set_hidden(Has(options, kHidden));
    metric.mutable_options()->set_defined(Has(options, kDefined));
    if (!summary.empty()) {
      wandb_internal::MetricSummary* const to = metric.mutable_summary();
      to->set_min(Has(summary, 1));
      to->set_max(Has(summary, 2));
      to->set_mean(Has(summary, 3));
      to->set_best(Has(summary, 4));
      to->set_last(Has(summary, 5));
      to->set_none(Has(summary, 6));
      to->set_copy(Has(summary, 7));
      to->set_first(Has(summary, 8));
    }
    const json goal = At(entry, {"8"});
    if (goal == 1) metric.set_goal(MetricRecord::GOAL_MINIMIZE);
    if (goal == 2) metric.set_goal(MetricRecord::GOAL_MAXIMIZE);
    metric.mutable__control()->set_overwrite(true);
  }
  return metrics;
}

EnvironmentRecord EnvironmentOf(absl::string_view metadata) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  EnvironmentRecord environment;
  // One by one, so that a fact of an unexpected type costs only itself.
  for (const JsonMember& member : MembersOf(metadata)) {
    EnvironmentRecord one;
    const std::string text = absl::StrCat("{\"", member.key, "\":", member.value, "}");
    if (google::protobuf::util::JsonStringToMessage(text, &one, options).ok()) {
      environment.MergeFrom(one);
    }
  }
  return environment;
}

RunRecord RunOf(const json& variables) {
  RunRecord run;
  run.set_run_id(TextAt(variables, {"name"}));
  const std::string entity = TextAt(variables, {"entity"});
  if (entity != kUnknownEntity) run.set_entity(entity);
  run.set_project(TextAt(variables, {"project"}));
  run.set_run_group(TextAt(variables, {"groupName"}));
  run.set_job_type(TextAt(variables, {"jobType"}));
  run.set_display_name(TextAt(variables, {"displayName"}));
  run.set_notes(TextAt(variables, {"notes"}));
  run.set_host(TextAt(variables, {"host"}));
  for (const json& tag : At(variables, {"tags"})) {
    if (tag.is_string()) run.add_tags(tag.get<std::string>());
  }
  const std::string commit = TextAt(variables, {"commit"});
  const std::string repo = TextAt(variables, {"repo"});
  if (!commit.empty()) run.mutable_git()->set_commit(commit);
  if (!repo.empty()) run.mutable_git()->set_remote_url(repo);
  return run;
}

ArtifactRecord ArtifactOf(const json& input, const json& manifest, const std::string& directory) {
  ArtifactRecord artifact;
  artifact.set_run_id(TextAt(input, {"runName"}));
  artifact.set_project(TextAt(input, {"projectName"}));
  artifact.set_type(TextAt(input, {"artifactTypeName"}));
  artifact.set_name(TextAt(input, {"artifactCollectionName"}));
  artifact.set_digest(TextAt(input, {"digest"}));
  artifact.set_digest_algorithm(TextAt(input, {"digestAlgorithm"}));
  artifact.set_description(TextAt(input, {"description"}));
  artifact.set_metadata(TextAt(input, {"metadata"}));
  artifact.set_finalize(true);
  artifact.set_client_id(TextAt(input, {"clientID"}));
  artifact.set_sequence_client_id(TextAt(input, {"sequenceClientID"}));
  for (const json& alias : At(input, {"aliases"})) artifact.add_aliases(TextAt(alias, {"alias"}));
  for (const json& tag : At(input, {"tags"})) artifact.add_tags(TextAt(tag, {"tagName"}));
  wandb_internal::ArtifactManifest* const to = artifact.mutable_manifest();
  to->set_version(1);
  to->set_storage_policy(TextAt(manifest, {"storagePolicy"}));
  const json config = At(manifest, {"storagePolicyConfig"});
  for (const auto& [key, value] : config.items()) {
    wandb_internal::StoragePolicyConfigItem* const item = to->add_storage_policy_config();
    item->set_key(key);
    item->set_value_json(value.dump());
  }
  const json contents = At(manifest, {"contents"});
  for (const auto& [path, entry] : contents.items()) {
    wandb_internal::ArtifactManifestEntry* const item = to->add_contents();
    item->set_path(path);
    item->set_digest(TextAt(entry, {"digest"}));
    item->set_ref(TextAt(entry, {"ref"}));
    if (const json size = At(entry, {"size"}); size.is_number_integer()) {
      item->set_size(size.get<int64_t>());
    }
    if (item->ref().empty()) item->set_local_path(absl::StrCat(directory, "/", FileNameOf(path)));
  }
  return artifact;
}

std::string FileNameOf(absl::string_view path) { return wandb::Digest(path); }

}  // namespace ranklog::deliver::offline
