// The part of MlflowDelivery that keeps the parent of the runs of a job, under the strategies `node`
// and `all`. Each child looks for it, and makes it if there is none; the last child ends it.

#include <algorithm>
#include <set>

#include "service/deliver/json/json_writer.h"
#include "service/deliver/mlflow/format/names.h"
#include "service/deliver/mlflow/mlflow_delivery.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr char kUpdate[] = "runs/update";
constexpr char kLookForChildren[] = "look for the other ranks' runs";
// A daemon that made another parent at the same time has shown it by then, if the network is well.
constexpr absl::Duration kSettleAfter = absl::Seconds(10);

std::string OnlyRun(const std::string& run_id) {
  std::string body = "{\"run_id\":";
  AppendString(run_id, &body);
  return body + "}";
}

const ServerRun* Smallest(const std::vector<ServerRun>& runs) {
  const auto found =
      std::min_element(runs.begin(), runs.end(),
                       [](const ServerRun& a, const ServerRun& b) { return a.run_id < b.run_id; });
  return found == runs.end() ? nullptr : &*found;
}

}  // namespace

// Of several that daemons made at the same time, all take the same one: the smallest id.
absl::Duration MlflowDelivery::FindParent(absl::Time now) {
  const std::string digest = JobDigest(run_, job_id_);
  if (searched_) {
    searched_ = false;
    std::string name = Setting("run_name");
    if (name.empty()) name = run_.settings.name.empty() ? job_id_ : run_.settings.name;
    Pairs tags = {{kJobTag, digest},
                  {"ranklog.run_id", job_id_},
                  {"ranklog.project", run_.project},
                  {"mlflow.source.name", run_.settings.program}};
    const absl::StatusOr<HttpResponse> answer =
        SendRequest(Post(server(), "runs/create",
                         CreateRunBody(cursor_.experiment_id, FirstCharacters(name, kMaxRunName),
                                       "", ToMs(run_.started_us), tags)));
    if (Classify(answer) != Outcome::kAccepted) {
      return NotAccepted("create the parent", answer, now);
    }
    const absl::StatusOr<ServerRun> made = ParseRun(*answer);
    if (!made.ok()) return BlockedByAnswer(made.status(), answer, now);
    made_parent_ = made->run_id;
    OnSuccess();
    return absl::ZeroDuration();
  }
  std::vector<ServerRun> runs;
  if (const Wait wait = SearchRuns({kJobTag, digest}, "look for the parent", now, &runs)) {
    return *wait;
  }
  if (const ServerRun* const parent = Smallest(runs)) {
    cursor_.parent_id = parent->run_id;
    parent_runs_ = parent->status == "RUNNING";
  }
  searched_ = cursor_.parent_id.empty();
  return absl::ZeroDuration();
}

absl::Duration MlflowDelivery::RemoveMadeParent(absl::Time now) {
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Post(server(), "runs/delete", OnlyRun(made_parent_)));
  if (Classify(answer) == Outcome::kLater) return NotAccepted("remove a run", answer, now);
  made_parent_.clear();
  return absl::ZeroDuration();
}

// All its earlier children have ended.
absl::Duration MlflowDelivery::ReopenParent(absl::Time now) {
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Post(server(), kUpdate, UpdateRunBody(cursor_.parent_id, "RUNNING", 0)));
  if (Classify(answer) != Outcome::kAccepted) {
    return NotAccepted("continue the parent", answer, now);
  }
  parent_runs_ = true;
  OnSuccess();
  return absl::ZeroDuration();
}

// Looks once more, soon after the start and at the end: a daemon that searched before our parent was
// there may have made another one later. Whoever finds several moves all children to one of them.
MlflowDelivery::Wait MlflowDelivery::SettleParent(absl::Time now) {
  if (!MakesParent()) return absl::nullopt;
  if (!lost_parents_.empty()) return MoveChildren(now);
  if (!parent_runs_ && !ended()) return ReopenParent(now);
  settle_parent_at_ = std::min(settle_parent_at_, now + kSettleAfter);
  bool& settled = ended() ? settled_at_end_ : settled_;
  if (settled || (!ended() && now < settle_parent_at_)) return absl::nullopt;
  std::vector<ServerRun> runs;
  const RunFilter filter = {kJobTag, JobDigest(run_, job_id_)};
  if (const Wait wait = SearchRuns(filter, "look for the parent", now, &runs)) return wait;
  settled = true;
  const ServerRun* const parent = Smallest(runs);
  if (parent == nullptr) return absl::nullopt;  // a person deleted it
  std::set<std::string> lost = {cursor_.parent_id};
  for (const ServerRun& run : runs) lost.insert(run.run_id);
  lost.erase(parent->run_id);
  lost_parents_.assign(lost.begin(), lost.end());
  cursor_.parent_id = parent->run_id;
  parent_runs_ = parent->status == "RUNNING";
  return absl::ZeroDuration();
}

// One child of a lost parent, or that parent itself once it has none.
absl::Duration MlflowDelivery::MoveChildren(absl::Time now) {
  if (lost_children_.empty()) {
    std::vector<ServerRun> runs;
    const RunFilter filter = {kParentTag, lost_parents_.back()};
    if (const Wait wait = SearchRuns(filter, kLookForChildren, now, &runs)) {
      return *wait;
    }
    for (const ServerRun& run : runs) lost_children_.push_back(run.run_id);
    if (!runs.empty()) return absl::ZeroDuration();
  }
  const bool is_child = !lost_children_.empty();
  const absl::StatusOr<HttpResponse> answer =
      is_child ? SendRequest(Post(
                     server(), "runs/log-batch",
                     PairsBody(lost_children_.back(), "tags", {{kParentTag, cursor_.parent_id}})))
               : SendRequest(Post(server(), "runs/delete", OnlyRun(lost_parents_.back())));
  const Outcome outcome = Classify(answer);
  // A person, or another daemon, may have deleted it.
  if (outcome != Outcome::kAccepted && outcome != Outcome::kRefused) {
    return NotAccepted("join the job's parents", answer, now);
  }
  OnSuccess();
  (is_child ? lost_children_ : lost_parents_).pop_back();
  return absl::ZeroDuration();
}

// The last child ends the parent. Two that end at the same time do it both, with the same values.
// Asks for one child of each status, since an answer with all children may be megabytes.
MlflowDelivery::Wait MlflowDelivery::EndParent(absl::Time now) {
  if (parent_ended_ || !MakesParent()) return absl::nullopt;
  constexpr const char* kAsked[] = {"RUNNING", "FAILED", "KILLED", ""};
  constexpr size_t kAny = 3;
  if (parent_end_.asked <= kAny) {
    const RunFilter filter = {kParentTag, cursor_.parent_id, kAsked[parent_end_.asked]};
    const absl::StatusOr<HttpResponse> answer = SendRequest(Post(
        server(), "runs/search", SearchBody(cursor_.experiment_id, filter, "", /*last=*/true)));
    if (Classify(answer) != Outcome::kAccepted) {
      return NotAccepted(kLookForChildren, answer, now);
    }
    const absl::StatusOr<RunPage> page = ParseRuns(*answer);
    if (!page.ok()) return BlockedByAnswer(page.status(), answer, now);
    OnSuccess();
    const bool found = !page->runs.empty();
    if (parent_end_.asked == 0 && found) {
      parent_ended_ = true;  // that one ends it
      return absl::nullopt;
    }
    if (parent_end_.asked == kAny) {
      parent_end_.end_ms = found ? page->runs.front().end_ms : ToMs(run_.ended_us);
    } else if (found) {
      parent_end_.status = filter.status;
      parent_end_.asked = kAny - 1;
    }
    ++parent_end_.asked;
    return absl::ZeroDuration();
  }
  const absl::StatusOr<HttpResponse> answer = SendRequest(Post(
      server(), kUpdate, UpdateRunBody(cursor_.parent_id, parent_end_.status, parent_end_.end_ms)));
  const Outcome outcome = Classify(answer);
  if (outcome != Outcome::kAccepted && outcome != Outcome::kRefused) {
    return NotAccepted("end the parent", answer, now);
  }
  parent_end_ = {};
  parent_ended_ = true;
  OnSuccess();
  return absl::ZeroDuration();
}

}  // namespace ranklog::deliver::mlflow
