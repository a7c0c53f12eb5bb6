#include "service/deliver/wandb/documents/config_document.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/cursor.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;
using model::MetricDefinition;

// Field numbers and enum values of W&B's telemetry record and metric record.
constexpr int kFeatureCppLibrary = 57;
constexpr int kStepSync = 1, kHidden = 2, kDefined = 3;
const std::map<std::string, int>& SummaryNumbers() {
  static const auto* const numbers = new std::map<std::string, int>{
      {"min", 1}, {"max", 2}, {"mean", 3}, {"last", 5}, {"none", 6}, {"first", 8}};
  return *numbers;
}

#ifdef __aarch64__
constexpr char kPlatform[] = "linux-aarch64";
#else
constexpr char kPlatform[] = "linux-x86_64";
#endif
constexpr char kOwnKey[] = "_wandb";
constexpr size_t kMaxDigests = 1000;  // of keys; at most 200 KB in the stored cursor

constexpr size_t kDigestBytes = 16;
// The newest, and before it values whose requests may still take effect.
constexpr size_t kDigestsOfKey = 8;
constexpr absl::string_view kNothing = "----------------";  // as long as a digest

// Of a member of a document.
std::string DigestOf(const Json& member) {
  const bool wrapped = member.is_object() && member.contains("value");
  return Digest(ToJsonText(wrapped ? member["value"] : member)).substr(0, kDigestBytes);
}

bool IsGlob(const std::string& name) { return !name.empty() && name.back() == '*'; }

// A dot in a definition's name separates nesting levels, but our keys are flat.
std::string Escape(const std::string& name, bool nested) {
  return nested ? name : absl::StrReplaceAll(name, {{".", "\\."}});
}

std::vector<MetricDefinition> Expanded(const aggregate::MetricTable& table,
                                       absl::Span<const std::string> keys) {
  std::vector<MetricDefinition> definitions;
  std::map<std::string, bool> named;
  for (const MetricDefinition& definition : table.definitions()) {
    if (IsGlob(definition.name)) continue;
    definitions.push_back(definition);
    named[definition.name] = true;
  }
  for (const std::string& key : keys) {
    const MetricDefinition* const found = table.Find(key);
    if (found == nullptr || !IsGlob(found->name) || std::exchange(named[key], true)) continue;
    definitions.push_back(*found);
    definitions.back().name = key;
  }
  return definitions;
}

Json Entry(const MetricDefinition& definition, bool nested) {
  Json entry = {{IsGlob(definition.name) ? "2" : "1", Escape(definition.name, nested)}};
  Json options = Json::array();
  if (definition.step_sync && !definition.step_metric.empty()) options.push_back(kStepSync);
  if (definition.hidden) options.push_back(kHidden);
  if (!IsGlob(definition.name)) options.push_back(kDefined);
  entry["6"] = std::move(options);
  Json summary = Json::array();
  for (const std::string& name : definition.summary) {
    if (const auto it = SummaryNumbers().find(name); it != SummaryNumbers().end()) {
      summary.push_back(it->second);
    }
  }
  entry["7"] = std::move(summary);
  if (definition.goal == "minimize") entry["8"] = 1;
  if (definition.goal == "maximize") entry["8"] = 2;
  return entry;
}

}  // namespace

Json MetricList(const aggregate::MetricTable& table, bool expand_globs,
                absl::Span<const std::string> keys, bool nested) {
  const std::vector<MetricDefinition> definitions =
      expand_globs ? Expanded(table, keys) : table.definitions();
  Json list = Json::array();
  std::map<std::string, size_t> places;
  for (const MetricDefinition& definition : definitions) {
    list.push_back(Entry(definition, nested));
    places[definition.name] = list.size();
  }
  for (size_t i = 0; i < definitions.size(); ++i) {
    const std::string& step_metric = definitions[i].step_metric;
    if (step_metric.empty()) continue;
    const auto [place, is_new] = places.try_emplace(step_metric, list.size() + 1);
    if (is_new)
      list.push_back(
          {{"1", Escape(step_metric, nested)}, {"6", Json::array()}, {"7", Json::array()}});
    list[i]["5"] = place->second;
  }
  return list;
}

Json ConfigDocument(const Json& config, const Json& metric_list, const Writer& writer) {
  Json document = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (key != kOwnKey) document[key] = {{"value", value}};
  }
  const Json telemetry = {
      {"3", {kFeatureCppLibrary}}, {"12", "ranklog-" RANKLOG_VERSION}, {"13", kPlatform}};
  Json own = {{"t", telemetry}, {"m", metric_list}};
  if (writer.metadata.is_object()) own["e"] = {{writer.id, writer.metadata}};
  if (writer.began_at) {
    own["branch_point"] = {{"run_id", writer.began_at->run_id}, {"step", writer.began_at->step}};
  }
  if (!writer.code.empty()) own["code_path"] = writer.code;
  document[kOwnKey] = {{"value", std::move(own)}};
  return document;
}

Json MergeConfig(Json ours, const nlohmann::json& server,
                 const std::map<std::string, std::string>& sent) {
  if (!server.is_object()) return ours;
  for (const auto& [key, value] : server.items()) {
    if (key == kOwnKey) continue;
    const auto mine = ours.find(key);
    const auto before = sent.find(key);
    const bool unchanged = mine != ours.end() && before != sent.end() &&
                           absl::StartsWith(before->second, DigestOf(*mine));
    // An upsert may take effect late, after the next one.
    const bool sent_by_us =
        before != sent.end() && absl::StrContains(before->second, DigestOf(FromServer(value)));
    const bool differs =
        mine != ours.end() && !SameValue(value, ParseServerJson(ToJsonText(*mine)));
    if (mine == ours.end() || (unchanged && differs && !sent_by_us)) ours[key] = FromServer(value);
  }
  const auto theirs = server.find(kOwnKey);
  if (theirs == server.end() || !theirs->is_object() || !theirs->contains("value")) return ours;
  Json& own = ours[kOwnKey]["value"];
  for (const char* const part : {"viz", "visualize", "mask/class_labels", "e"}) {
    const auto found = (*theirs)["value"].find(part);
    if (found == (*theirs)["value"].end() || !found->is_object()) continue;
    for (const auto& [name, value] : found->items()) {
      if (!own.contains(part) || !own[part].contains(name)) own[part][name] = FromServer(value);
    }
  }
  return ours;
}

void AddDigests(const Json& document, bool accepted, std::map<std::string, std::string>* sent) {
  std::map<std::string, std::string> digests;
  if (document.size() <= kMaxDigests) {
    for (const auto& [key, value] : document.items()) {
      if (key == kOwnKey) continue;
      std::string& now = digests[key] = DigestOf(value);
      const auto found = sent->find(key);
      const std::string before = found == sent->end() ? "" : found->second;
      if (accepted ? absl::StartsWith(before, now) : absl::StrContains(before, now)) {
        now = before;
        continue;
      }
      if (accepted) {
        absl::StrAppend(&now, before.empty() ? "" : " ", before);
      } else {
        const absl::string_view newest = absl::string_view(before).substr(0, kDigestBytes);
        now = absl::StrCat(newest.empty() ? kNothing : newest, " ", now,
                           absl::string_view(before).substr(newest.size()));
      }
      now.resize(std::min(now.size(), kDigestsOfKey * (kDigestBytes + 1)));
    }
  }
  *sent = std::move(digests);
}

}  // namespace ranklog::deliver::wandb
