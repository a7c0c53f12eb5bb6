// The part of MlflowDelivery that finds or makes the experiment and the run. A creation
// is not idempotent, so each is searched for first, and again after a lost answer.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/url.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/mlflow/format/names.h"
#include "service/deliver/mlflow/mlflow_delivery.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr char kNotFound[] = "RESOURCE_DOES_NOT_EXIST";
constexpr char kExists[] = "RESOURCE_ALREADY_EXISTS";
constexpr char kAnotherRun[] = "MLFLOW_RUN_ID=ID (no ID: a new run)";

// What a person does about a setting that names nothing at the server.
std::string Correct(const char* variable, const char* other_way) {
  return absl::StrCat(kToContinue, other_way,
                      "when the run has ended, run: ranklog sync RUN --set ", variable);
}

bool IsRefusal(const absl::StatusOr<HttpResponse>& answer) {
  return IsError(answer, kNotFound) || IsError(answer, "INVALID_PARAMETER_VALUE");
}

std::string Quoted(absl::string_view text) {
  std::string quoted;
  AppendString(text, &quoted);
  return quoted;
}

bool MayContinue(const model::Run& run, const std::vector<model::Stream>& streams) {
  const std::string& resume = run.settings.resume;
  if (resume == "allow" || resume == "must" || resume == "auto") return true;
  return std::any_of(streams.begin(), streams.end(), [](const model::Stream& stream) {
    return stream.launch.requeue > 0 || stream.launch.restart > 0;
  });
}

}  // namespace

absl::StatusOr<absl::Duration> MlflowDelivery::Begin(storage::StoreReader& reader, absl::Time now) {
  ASSIGN_OR_RETURN(streams_, reader.Streams(run_.id));
  if (!streams_.empty()) {
    const model::Stream& first = streams_.front();
    job_id_ = first.job_id.empty() ? first.key.job_id : first.job_id;
  }
  // A run that is there has an experiment.
  const bool is_given = !Setting("run_id").empty();
  if (is_given && (!HasParent() || cursor_.parent_id.empty())) return ReadGivenRun(now);
  if (cursor_.experiment_id.empty()) return FindExperiment(now);
  if (HasParent() && cursor_.parent_id.empty()) return FindParent(now);
  if (!made_parent_.empty() && made_parent_ != cursor_.parent_id) return RemoveMadeParent(now);
  if (!parent_runs_) return ReopenParent(now);
  return searched_ ? CreateRun(now) : FindRun(now);
}

// Another daemon may make it at the same time; then it is found at the next try.
absl::Duration MlflowDelivery::FindExperiment(absl::Time now) {
  const std::string id = Setting("experiment_id");
  std::string name = Setting("experiment_name");
  if (name.empty()) name = run_.project;
  const std::string query = id.empty()
                                ? absl::StrCat("get-by-name?experiment_name=", PercentEncode(name))
                                : absl::StrCat("get?experiment_id=", PercentEncode(id));
  absl::StatusOr<HttpResponse> answer;
  if (searched_) {
    answer = SendRequest(
        Post(server(), "experiments/create", absl::StrCat("{\"name\":", Quoted(name), "}")));
    searched_ = false;
    if (IsError(answer, kExists)) return absl::ZeroDuration();
  } else {
    answer = SendRequest(Get(server(), absl::StrCat("experiments/", query)));
    if (id.empty() && IsError(answer, kNotFound)) {
      searched_ = true;
      return absl::ZeroDuration();
    }
    if (!id.empty() && IsRefusal(answer)) {
      return Blocked(
          absl::StrCat("the server has no experiment '", id, "', which MLFLOW_EXPERIMENT_ID names",
                       Correct("MLFLOW_EXPERIMENT_ID=ID", "")),
          now);
    }
  }
  if (Classify(answer) != Outcome::kAccepted) {
    return NotAccepted("find or create the experiment", answer, now);
  }
  const absl::StatusOr<Experiment> experiment = ParseExperiment(*answer);
  if (!experiment.ok()) return BlockedByAnswer(experiment.status(), answer, now);
  if (experiment->deleted) {
    return Blocked(
        absl::StrCat("experiment ", id.empty() ? name : id, " is deleted",
                     Correct(id.empty() ? "MLFLOW_EXPERIMENT_NAME=NAME" : "MLFLOW_EXPERIMENT_ID=ID",
                             "restore it, or ")),
        now);
  }
  cursor_.experiment_id = experiment->id;
  OnSuccess();
  return absl::ZeroDuration();
}

absl::Duration MlflowDelivery::ReadGivenRun(absl::Time now) {
  const std::string id = Setting("run_id");
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Get(server(), absl::StrCat("runs/get?run_id=", PercentEncode(id))));
  if (IsRefusal(answer)) {
    return Blocked(absl::StrCat("the server has no run '", id, "', which MLFLOW_RUN_ID names",
                                Correct(kAnotherRun, "")),
                   now);
  }
  if (Classify(answer) != Outcome::kAccepted) return NotAccepted("read the run", answer, now);
  const absl::StatusOr<ServerRun> found = ParseRun(*answer);
  if (!found.ok()) return BlockedByAnswer(found.status(), answer, now);
  OnSuccess();
  if (!HasParent()) return Join(*found, now);
  if (found->deleted) return FoundRunDeleted(*found, now);
  cursor_.parent_id = found->run_id;
  cursor_.experiment_id = found->experiment_id;
  return absl::ZeroDuration();
}

absl::Duration MlflowDelivery::FindRun(absl::Time now) {
  std::vector<ServerRun> runs;
  if (const Wait wait = SearchRuns({kRunTag, RunDigest(run_)}, "look for the run", now, &runs)) {
    return *wait;
  }
  for (const ServerRun& run : runs) {
    if (run.Tag(kDeliveryTag) != DeliveryDigest(run_)) continue;
    Created(run);  // the answer to its creation was lost
    return absl::ZeroDuration();
  }
  const bool resumes = MayContinue(run_, streams_);
  if (!runs.empty() && resumes) return Join(runs.front(), now);
  if (run_.must_be_there) {
    return Blocked(absl::StrCat("resume=must, and the experiment has no run '", run_.run_id, "'",
                                kToContinue, "start the job with RANKLOG_RESUME=allow"),
                   now);
  }
  searched_ = true;
  return absl::ZeroDuration();
}

absl::Duration MlflowDelivery::FoundRunDeleted(const ServerRun& run, absl::Time now) {
  const bool is_given = !Setting("run_id").empty();
  const std::string advice = is_given ? Correct(kAnotherRun, "restore it at the server, or ")
                                      : absl::StrCat(kToContinue, "restore it at the server");
  return Blocked(absl::StrCat("run ", run.run_id, " is deleted", advice), now);
}

absl::Duration MlflowDelivery::Join(const ServerRun& found, absl::Time now) {
  if (found.deleted) return FoundRunDeleted(found, now);
  cursor_.joined = true;
  // Steps of a run that only other programs wrote are not those of our rows.
  const std::string digest = RunDigest(run_);
  cursor_.replays_through = found.Tag(kRunTag) == digest ? found.last_step : -1;
  AddTags({{kRunTag, digest}});
  Created(found);
  return absl::ZeroDuration();
}

absl::Duration MlflowDelivery::CreateRun(absl::Time now) {
  searched_ = false;  // if the answer is lost
  Pairs tags = {{kRunTag, RunDigest(run_)}, {kDeliveryTag, DeliveryDigest(run_)}};
  if (HasParent()) tags.emplace_back(kParentTag, cursor_.parent_id);
  const absl::StatusOr<HttpResponse> answer = SendRequest(
      Post(server(), "runs/create",
           CreateRunBody(cursor_.experiment_id, NameOfRun(), "", ToMs(run_.started_us), tags)));
  if (Classify(answer) != Outcome::kAccepted) return NotAccepted("create the run", answer, now);
  const absl::StatusOr<ServerRun> run = ParseRun(*answer);
  if (!run.ok()) return BlockedByAnswer(run.status(), answer, now);
  OnSuccess();
  Created(*run);
  return absl::ZeroDuration();
}

void MlflowDelivery::Created(const ServerRun& run) {
  cursor_.run_id = run.run_id;
  cursor_.experiment_id = run.experiment_id;
  cursor_.artifact_uri = run.artifact_uri;
  cursor_.status = run.status;
  delivery_.last_error.clear();
}

std::string MlflowDelivery::NameOfRun() const {
  std::string name = HasParent() ? "" : Setting("run_name");
  if (name.empty()) name = run_.name.empty() ? run_.run_id : run_.name;
  const absl::string_view kept = FirstCharacters(name, kMaxRunName);
  return std::string(kept.data(), kept.size());
}

MlflowDelivery::Wait MlflowDelivery::SetStatus(absl::string_view status, int64_t end_ms,
                                               absl::Time now) {
  if (absl::string_view(cursor_.status) == status) return absl::nullopt;
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Post(server(), "runs/update", UpdateRunBody(cursor_.run_id, status, end_ms)));
  if (Classify(answer) == Outcome::kRefused && !run_checked_) {
    check_run_ = true;
    return absl::ZeroDuration();
  }
  if (Classify(answer) != Outcome::kAccepted) {
    return NotAccepted("set the run's status", answer, now);
  }
  cursor_.status = std::string(status);
  delivery_.last_error.clear();
  OnSuccess();
  return absl::ZeroDuration();
}

}  // namespace ranklog::deliver::mlflow
