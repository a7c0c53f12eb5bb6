#include "service/deliver/mlflow/format/description.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_config.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/mlflow/format/names.h"

namespace ranklog::deliver::mlflow {
namespace {

class Builder {
 public:
  void AddParam(const std::string& key, const model::Json& value) {
    if (value.is_object() && !value.empty()) {
      for (const auto& [name, member] : value.items()) {
        AddParam(absl::StrCat(key, ".", name), member);
      }
      return;
    }
    AddCutTag(key);
    const std::string name = NameOf(key);
    std::string text = ValueText(value);
    if (!names_.insert(name).second) {
      description_.cut.emplace_back(absl::StrCat("param ", key, ": another param has this name"),
                                    std::move(text));
      return;
    }
    description_.params.emplace_back(name, CutParam(key, std::move(text)));
  }
  void AddTag(const std::string& key, const std::string& value) {
    if (value.empty()) return;
    description_.tags.emplace_back(NameOf(key), value);
  }
  // The key of a name that was cut.
  void AddCutTag(const std::string& key) {
    if (!IsCut(key)) return;
    const std::string name = NameOf(key);
    AddTag(absl::StrCat("ranklog.key.", name.substr(name.rfind('-') + 1)), key);
  }

  Description Take() { return std::move(description_); }

 private:
  std::string CutParam(const std::string& key, std::string text) {
    const absl::string_view begin = FirstCharacters(text, kMaxParamValue);
    if (begin.size() == text.size()) return text;
    std::string kept(begin.data(), begin.size());
    description_.cut.emplace_back(
        absl::StrCat("param ", key, ": ", Characters(text), " characters; MLflow has the first ",
                     kMaxParamValue),
        std::move(text));
    return kept;
  }

  Description description_;
  std::set<std::string> names_;
};

std::string Definitions(absl::Span<const model::StoredItem> items) {
  aggregate::MetricTable table;
  for (const model::StoredItem& stored : items) {
    if (stored.item.kind == model::Item::Kind::kMetric) table.Define(stored.item.metric);
  }
  model::Json list = model::Json::array();
  for (const model::MetricDefinition& definition : table.definitions()) {
    model::Json entry = {{"name", definition.name}};
    if (!definition.step_metric.empty()) entry["step_metric"] = definition.step_metric;
    if (!definition.summary.empty()) entry["summary"] = definition.summary;
    if (!definition.goal.empty()) entry["goal"] = definition.goal;
    if (definition.hidden) entry["hidden"] = true;
    list.push_back(std::move(entry));
  }
  return list.empty() ? "" : ToJsonText(list);
}

void AddFacts(const model::Run& run, absl::Span<const model::Stream> streams,
              const model::Json& metadata, Builder* builder) {
  const model::RunSettings& settings = run.settings;
  builder->AddTag("mlflow.note.content", settings.notes);
  builder->AddTag("mlflow.user", TextOf(metadata, "username"));
  builder->AddTag("mlflow.source.name", settings.program);
  const bool is_batch = !streams.empty() && !streams.front().launch.batch_job.empty();
  builder->AddTag("mlflow.source.type", is_batch ? "JOB" : "LOCAL");
  const model::Json& git = MemberOf(metadata, "git");
  builder->AddTag("mlflow.source.git.commit", TextOf(git, "commit"));
  builder->AddTag("mlflow.source.git.branch", TextOf(git, "branch"));
  builder->AddTag("mlflow.source.git.repoURL", TextOf(git, "remote"));
  builder->AddTag("ranklog.run_id", run.run_id);
  builder->AddTag("ranklog.project", run.project);
  builder->AddTag("ranklog.group", settings.group);
  builder->AddTag("ranklog.job_type", settings.job_type);
  builder->AddTag("ranklog.host", settings.host);
  for (const std::string& tag : settings.tags) builder->AddTag(tag, "true");
}

void AddLosses(const model::Run& run, absl::Span<const model::Stream> streams, Builder* builder) {
  uint64_t lost = 0;
  for (const model::Stream& stream : streams) lost += stream.losses.total() + stream.late_rows;
  if (lost > 0) builder->AddTag("ranklog.rows_lost", absl::StrCat(lost));
  if (run.state == model::RunState::kRunning) return;
  builder->AddTag("ranklog.end", run.reason);
  if (run.exit_code != 0) builder->AddTag("ranklog.exit_code", absl::StrCat(run.exit_code));
}

}  // namespace

std::string ValueText(const model::Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  return ToJsonText(value);
}

std::string ChangedParamTag(const std::string& name) {
  const std::string tag = absl::StrCat("ranklog.config.", name);
  const absl::string_view kept = FirstCharacters(tag, kMaxNameCharacters);
  return std::string(kept.data(), kept.size());
}

std::string RunDigest(const model::Run& run) {
  return Digest(absl::StrCat(run.project, "\n", run.run_id));
}

std::string DeliveryDigest(const model::Run& run) {
  return Digest(absl::StrCat(run.project, "\n", run.run_id, "\n", run.id, "\n", run.started_us,
                             "\n", run.settings.host));
}

std::string JobDigest(const model::Run& run, const std::string& job_id) {
  return Digest(absl::StrCat(run.project, "\njob\n", job_id));
}

Description Describe(const model::Run& run, absl::Span<const model::Stream> streams,
                     absl::Span<const model::StoredItem> items,
                     absl::Span<const std::vector<std::string>> shapes) {
  Builder builder;
  AddFacts(run, streams, aggregate::RunMetadata(run, streams, items), &builder);
  AddLosses(run, streams, &builder);
  builder.AddTag("ranklog.metrics", Definitions(items));
  for (const model::StoredItem& stored : items) {
    if (stored.item.kind != model::Item::Kind::kAlert) continue;
    const model::Json& alert = stored.item.object;
    builder.AddTag(
        absl::StrCat("ranklog.alert.", stored.id),
        absl::StrJoin({TextOf(alert, "level"), TextOf(alert, "title"), TextOf(alert, "text")},
                      ": "));
  }
  for (const std::vector<std::string>& keys : shapes) {
    for (const std::string& key : keys) builder.AddCutTag(key);
  }
  const model::Json config = aggregate::RunConfig(run, streams, items);
  for (const auto& [key, value] : config.items()) {
    builder.AddParam(key, value);
  }
  return builder.Take();
}

}  // namespace ranklog::deliver::mlflow
