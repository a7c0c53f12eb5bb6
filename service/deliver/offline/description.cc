#include "service/deliver/offline/description.h"

#include <google/protobuf/util/message_differencer.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/deliver/offline/json_text.h"
#include "service/deliver/offline/records.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::offline {
namespace {

using google::protobuf::util::MessageDifferencer;
using nlohmann::json;
using wandb_internal::Record;

using Values = std::map<std::string, std::string>;

constexpr char kOwnKey[] = "_wandb";

// What differs in `now`. False: nothing.
template <typename Changes>
bool AddChanges(const Values& now, const Values& before, Changes* changes) {
  for (const auto& [key, value] : now) {
    const auto found = before.find(key);
    if (found != before.end() && found->second == value) continue;
    auto* const item = changes->add_update();
    item->set_key(key);
    item->set_value_json(value);
  }
  for (const auto& [key, value] : before) {
    if (now.count(key) == 0) changes->add_remove()->set_key(key);
  }
  return changes->update_size() + changes->remove_size() > 0;
}

json Parsed(absl::string_view text) {
  return json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

// The part of a config that is W&B's own, without its wrapper.
void AddOwn(absl::string_view own, const LogContents& contents, wandb_internal::RunRecord* run,
            std::vector<Record>* records) {
  const json telemetry = Parsed(MemberIn(own, "t"));
  wandb_internal::TelemetryRecord* const to = run->mutable_telemetry();
  to->mutable_feature()->set_offline(true);
  to->mutable_feature()->set_lib_cpp(true);
  to->set_core_version(wandb::TextAt(telemetry, {"12"}));
  to->set_platform(wandb::TextAt(telemetry, {"13"}));
  if (const json branch = Parsed(MemberIn(own, "branch_point")); branch.is_object()) {
    run->mutable_branch_point()->set_run(wandb::TextAt(branch, {"run_id"}));
    run->mutable_branch_point()->set_metric("_step");
    run->mutable_branch_point()->set_value(wandb::At(branch, {"step"}).get<double>());
  }
  for (wandb_internal::MetricRecord& metric : MetricsOf(Parsed(MemberIn(own, "m")))) {
    const auto found =
        contents.metrics.find(metric.name().empty() ? metric.glob_name() : metric.name());
    if (found != contents.metrics.end() && MessageDifferencer::Equals(found->second, metric)) {
      continue;
    }
    *records->emplace_back().mutable_metric() = std::move(metric);
  }
  for (const JsonMember& writer : MembersOf(MemberIn(own, "e"))) {
    wandb_internal::EnvironmentRecord environment = EnvironmentOf(writer.value);
    environment.set_writer_id(writer.key);
    // The lists of a later record would be appended.
    if (contents.environment.args_size() > 0) environment.clear_args();
    if (contents.environment.gpu_nvidia_size() > 0) environment.clear_gpu_nvidia();
    wandb_internal::EnvironmentRecord merged = contents.environment;
    merged.MergeFrom(environment);
    if (!MessageDifferencer::Equals(merged, contents.environment)) {
      *records->emplace_back().mutable_environment() = std::move(environment);
    }
    break;  // a run here has one writer
  }
}

}  // namespace

std::vector<Record> DescriptionChanges(const json& variables, const LogContents& contents) {
  std::vector<Record> records;
  wandb_internal::RunRecord update = RunOf(variables);
  if (const std::string text = wandb::TextAt(variables, {"config"}); !text.empty()) {
    Values config;
    for (JsonMember& member : MembersOf(text)) {
      const absl::string_view value = MemberIn(member.value, "value");
      if (member.key == kOwnKey) {
        AddOwn(value, contents, &update, &records);
        if (const absl::string_view code = MemberIn(value, "code_path"); !code.empty()) {
          config[kOwnKey] = absl::StrCat("{\"code_path\":", code, "}");
        }
      } else {
        config[std::move(member.key)] = std::string(value);
      }
    }
    Record changes;
    if (AddChanges(config, contents.config, changes.mutable_config())) {
      records.push_back(std::move(changes));
    }
  }
  wandb_internal::RunRecord run = contents.run;
  if (update.tags_size() > 0) run.clear_tags();
  run.MergeFrom(update);
  if (!MessageDifferencer::Equals(run, contents.run)) {
    *records.emplace_back().mutable_run() = std::move(run);
  }
  return records;
}

std::vector<Record> WholeDescription(const LogContents& contents, int64_t started_us) {
  std::vector<Record> records;
  wandb_internal::RunRecord* const run = records.emplace_back().mutable_run();
  *run = contents.run;
  *run->mutable_start_time() = TimestampOf(started_us);
  AddChanges(contents.config, {}, run->mutable_config());
  if (contents.environment.ByteSizeLong() > 0) {
    *records.emplace_back().mutable_environment() = contents.environment;
  }
  for (const auto& [name, metric] : contents.metrics) {
    *records.emplace_back().mutable_metric() = metric;
  }
  Record summary;
  if (AddChanges(contents.summary, {}, summary.mutable_summary())) {
    records.push_back(std::move(summary));
  }
  return records;
}

Record SummaryChanges(absl::string_view summary, const LogContents& contents) {
  Values now;
  for (JsonMember& member : MembersOf(summary)) {
    now[std::move(member.key)] = std::string(member.value);
  }
  Record record;
  if (!AddChanges(now, contents.summary, record.mutable_summary())) record.Clear();
  return record;
}

}  // namespace ranklog::deliver::offline
