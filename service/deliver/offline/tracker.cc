#include "service/deliver/offline/tracker.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"
#include "service/deliver/offline/answers.h"
#include "service/deliver/offline/console_text.h"
#include "service/deliver/offline/description.h"
#include "service/deliver/offline/records.h"
#include "service/deliver/offline/run_directory.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::offline {
namespace {

using wandb::At;
using wandb::TextAt;
using wandb_internal::FilesItem;
using wandb_internal::OutputRawRecord;
using wandb_internal::Record;

constexpr char kOldestServer[] = "0.70.0";  // as the official client's logs

std::string TextOr(std::string text, const char* otherwise) {
  return text.empty() ? otherwise : text;
}

}  // namespace

absl::StatusOr<HttpResponse> Tracker::Send(const HttpRequest& request) {
  absl::StatusOr<Json> answer = Answer(request);
  absl::Status status = answer.status();
  if (status.ok() && writer_ != nullptr) status = writer_->Flush(/*sync=*/true);
  if (!status.ok()) {
    writer_.reset();
    return status;
  }
  HttpResponse response;
  response.code = 200;
  response.body = answer->dump();
  return response;
}

absl::StatusOr<Tracker::Json> Tracker::Answer(const HttpRequest& request) {
  if (request.method == "PUT") {
    RETURN_IF_ERROR(OnPut(request));
    return Json::object();
  }
  const Json body = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  absl::string_view url = request.url;
  if (!absl::ConsumeSuffix(&url, "/graphql")) {
    RETURN_IF_ERROR(OnPost(body));
    return Json::object();
  }
  if (root_ != std::string(url)) {
    root_ = std::string(url);
    folder_ = FolderOfRuns(root_);
  }
  return OnQuery(TextAt(body, {"operationName"}), At(body, {"variables"}));
}

absl::StatusOr<Tracker::Json> Tracker::OnQuery(const std::string& operation,
                                               const Json& variables) {
  if (operation == "ServerFeaturesQuery") {
    Json features = Json::array();
    for (const char* const name : {"STRUCTURED_CONSOLE_LOGS", "EXPAND_DEFINED_METRIC_GLOBS"}) {
      features.push_back({{"name", name}, {"isEnabled", true}});
    }
    return Data("serverInfo", {{"features", std::move(features)}});
  }
  if (operation == "RunResumeStatus") return Standing(variables);
  if (operation == "UpsertBucket") return OnUpsert(variables);
  RETURN_IF_ERROR(Load());
  if (operation == "CreateRunFiles") return RunFileUrls(variables);
  if (operation == "NotifyScriptableRunAlert") return OnAlert(variables);
  if (operation == "CreateArtifact") return OnCreateArtifact(At(variables, {"input"}));
  if (operation == "CreateArtifactManifest") return OnCreateManifest(variables);
  if (operation == "UpdateArtifactManifest") {
    return ManifestUrl("updateArtifactManifest", TextAt(variables, {"artifactManifestID"}));
  }
  if (operation == "CreateArtifactFiles") return ArtifactFileUrls(At(variables, {"input"}));
  if (operation == "CommitArtifact") return OnCommitArtifact(TextAt(variables, {"artifactID"}));
  const Json error = {{"message", "an offline run cannot ask the server"}};
  return Json{{"errors", Json::array({error})}};
}

Tracker::Json Tracker::OnCreateManifest(const Json& variables) {
  const std::string id = TextAt(variables, {"artifactID"});
  const auto found = artifacts_.find(id);
  if (found != artifacts_.end()) {
    found->second.incremental = TextAt(variables, {"manifestType"}) == "INCREMENTAL";
  }
  return ManifestUrl("createArtifactManifest", id);
}

absl::StatusOr<Tracker::Json> Tracker::OnUpsert(const Json& variables) {
  run_id_ = TextAt(variables, {"name"});
  RETURN_IF_ERROR(Load());
  for (Record& change : DescriptionChanges(variables, contents_)) {
    if (writer_ == nullptr) {
      contents_.Apply(change);
    } else {
      RETURN_IF_ERROR(Add(std::move(change)));
    }
  }
  if (writer_ == nullptr) RETURN_IF_ERROR(BeginPart());
  const std::filesystem::path path(directory_);
  return Data("upsertBucket",
              {{"bucket",
                {{"id", (path.parent_path().filename() / path.filename()).string()},
                 {"name", run_id_},
                 {"displayName", TextOr(contents_.run.display_name(), run_id_.c_str())},
                 {"historyLineCount", 0},
                 {"project",
                  {{"name", contents_.run.project()},
                   {"entity", {{"name", TextOr(contents_.run.entity(), kUnknownEntity)}}}}}}}});
}

// A repeated one can only be the last record.
absl::StatusOr<Tracker::Json> Tracker::OnAlert(const Json& variables) {
  Record record;
  wandb_internal::AlertRecord* const alert = record.mutable_alert();
  alert->set_title(TextAt(variables, {"title"}));
  alert->set_text(TextAt(variables, {"text"}));
  alert->set_level(TextAt(variables, {"severity"}));
  alert->set_wait_duration(At(variables, {"waitDuration"}).get<int64_t>());
  if (alert->SerializeAsString() != contents_.last_alert) {
    RETURN_IF_ERROR(Add(std::move(record)));
  }
  return Data("notifyScriptableRunAlert", {{"success", true}});
}

absl::Status Tracker::OnPut(const HttpRequest& request) {
  RETURN_IF_ERROR(Load());
  absl::string_view url = request.url;
  if (absl::ConsumePrefix(&url, kArtifactUrl)) return OnPutOfArtifact(url, request);
  if (!absl::ConsumePrefix(&url, kRunFileUrl)) return absl::OkStatus();
  const std::string path(url);
  RETURN_IF_ERROR(Prepare());
  RETURN_IF_ERROR(
      StoreFile(request, absl::StrCat(directory_, "/files/", path), /*may_link=*/false));
  return AddFile(path);
}

absl::Status Tracker::AddFile(const std::string& path) {
  if (contents_.files.count(path) > 0) return absl::OkStatus();  // `wandb sync` sends the newest
  Record record;
  FilesItem* const item = record.mutable_files()->add_files();
  item->set_path(path);
  item->set_policy(FilesItem::NOW);
  item->set_type(path == "requirements.txt"         ? FilesItem::WANDB
                 : absl::StartsWith(path, "media/") ? FilesItem::MEDIA
                                                    : FilesItem::OTHER);
  return Add(std::move(record));
}

absl::Status Tracker::OnPost(const Json& post) {
  RETURN_IF_ERROR(Load());
  const Json files = At(post, {"files"});
  RETURN_IF_ERROR(AddLines(At(files, {"wandb-events.jsonl"}), &Tracker::AddEvent));
  RETURN_IF_ERROR(AddLines(At(files, {"output.log"}), &Tracker::AddConsole));
  RETURN_IF_ERROR(AddLines(At(files, {"wandb-history.jsonl"}), &Tracker::AddHistory));
  if (const Json summary = At(files, {"wandb-summary.json", "content"}); summary.is_array()) {
    RETURN_IF_ERROR(AddSummary(summary.at(0).get<std::string>()));
  }
  if (At(post, {"preempting"}) == true && !contents_.preempting) {
    Record record;
    record.mutable_preempting();
    RETURN_IF_ERROR(Add(std::move(record)));
  }
  if (At(post, {"complete"}) != true) return absl::OkStatus();
  Record end;
  end.mutable_exit()->set_exit_code(At(post, {"exitcode"}).get<int32_t>());
  return contents_.exit_code == end.exit().exit_code() ? absl::OkStatus() : Add(std::move(end));
}

absl::Status Tracker::AddLines(const Json& file,
                               absl::Status (Tracker::*add)(const std::string&, int64_t)) {
  const Json lines = At(file, {"content"});
  if (!lines.is_array()) return absl::OkStatus();
  int64_t number = At(file, {"offset"}).get<int64_t>();
  for (const Json& line : lines) {
    RETURN_IF_ERROR((this->*add)(line.get_ref<const std::string&>(), number++));
  }
  return absl::OkStatus();
}

absl::Status Tracker::AddHistory(const std::string& line, int64_t number) {
  if (number < contents_.next_history) return absl::OkStatus();
  Record record;
  *record.mutable_history() = HistoryOf(line);
  record.set_uuid(PlaceText(kHistoryPlace, number));
  return Add(std::move(record));
}

absl::Status Tracker::AddEvent(const std::string& line, int64_t number) {
  if (number < contents_.next_event) return absl::OkStatus();
  Record record;
  *record.mutable_stats() = StatsOf(line);
  record.set_uuid(PlaceText(kEventPlace, number));
  return Add(std::move(record));
}

// A line that is there already may have changed.
absl::Status Tracker::AddConsole(const std::string& line, int64_t number) {
  RETURN_IF_ERROR(Prepare());  // a new log has no earlier lines
  const ConsoleEntry entry = ConsoleOf(line);
  Record record;
  OutputRawRecord* const output = record.mutable_output_raw();
  if (number < contents_.next_console) {
    const auto is_it = [&](const auto& one) { return one.number == number; };
    const auto found = std::find_if(contents_.console.begin(), contents_.console.end(), is_it);
    if (found == contents_.console.end() || found->error != entry.error) return absl::OkStatus();
    const auto below = std::count_if(found + 1, contents_.console.end(),
                                     [&](const auto& one) { return one.error == entry.error; });
    output->set_line(ChangedConsoleLine(static_cast<size_t>(below), found->width, entry.text));
  } else {
    output->set_line(NewConsoleLine(!contents_.has_output[entry.error ? 1 : 0], entry.text));
  }
  output->set_output_type(entry.error ? OutputRawRecord::STDERR : OutputRawRecord::STDOUT);
  *output->mutable_timestamp() = entry.time;
  record.set_uuid(PlaceText(kConsolePlace, number));
  return Add(std::move(record));
}

absl::Status Tracker::AddSummary(const std::string& summary) {
  Record changes = SummaryChanges(summary, contents_);
  return changes.has_summary() ? Add(std::move(changes)) : absl::OkStatus();
}

absl::Status Tracker::Load() {
  if (writer_ != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(absl::optional<FoundPart> last, LastPart(folder_, run_id_, key_));
  if (!last) return absl::OkStatus();
  directory_ = std::move(last->directory);
  parts_ = last->part.number;
  return ReadLog();
}

// Leaves a damaged log as it is. Then the run goes on in a new one.
absl::Status Tracker::ReadLog() {
  contents_ = LogContents();
  ASSIGN_OR_RETURN(const auto reader, wandb_log::LogReader::Open(log_path()));
  while (true) {
    const auto next = (*reader).Next();
    const bool damaged = absl::IsDataLoss(next.status()) && !reader->torn();
    if (damaged) return absl::OkStatus();
    if (!next.ok() && !reader->torn()) return next.status();
    if (!next.ok() || !next->has_value()) break;
    Record record;
    if (!record.ParseFromString(**next)) return absl::OkStatus();
    contents_.Apply(record);
  }
  ASSIGN_OR_RETURN(writer_, wandb_log::LogWriter::Continue(log_path(), reader->offset()));
  return absl::OkStatus();
}

absl::Status Tracker::Prepare() {
  const bool is_open = writer_ != nullptr && !contents_.exit_code.has_value();
  return is_open && access(log_path().c_str(), F_OK) == 0 ? absl::OkStatus() : BeginPart();
}

absl::Status Tracker::BeginPart() {
  if (run_id_.empty()) return absl::InternalError("the run was not described yet");
  contents_.BeginLog();
  ASSIGN_OR_RETURN(directory_, MakeHidden(folder_, key_));
  ASSIGN_OR_RETURN(writer_, wandb_log::LogWriter::Create(log_path()));
  Record header;
  header.set_uuid(RunPart{.key = key_, .number = parts_ + 1}.Text());
  header.mutable_header()->mutable_version_info()->set_producer("ranklog-" RANKLOG_VERSION);
  header.mutable_header()->mutable_version_info()->set_min_consumer(kOldestServer);
  RETURN_IF_ERROR(Write(std::move(header)));
  const int64_t started_us = started_us_();
  for (Record& record : WholeDescription(contents_, started_us)) {
    RETURN_IF_ERROR(Write(std::move(record)));
  }
  RETURN_IF_ERROR(writer_->Flush(/*sync=*/true));
  ASSIGN_OR_RETURN(directory_,
                   Publish(directory_, folder_, run_id_, absl::FromUnixMicros(started_us)));
  ASSIGN_OR_RETURN(writer_, wandb_log::LogWriter::Continue(log_path(), writer_->end()));
  ++parts_;
  return absl::OkStatus();
}

absl::Status Tracker::Add(Record record) {
  RETURN_IF_ERROR(Prepare());
  return Write(std::move(record));
}

absl::Status Tracker::Write(Record record) {
  record.set_num(contents_.records + 1);
  RETURN_IF_ERROR(writer_->Append(record.SerializeAsString()));
  contents_.Apply(record);
  return absl::OkStatus();
}

std::string Tracker::log_path() const { return directory_ + "/" + LogName(run_id_); }

}  // namespace ranklog::deliver::offline
