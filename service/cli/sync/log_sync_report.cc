#include "service/cli/sync/log_sync_report.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/globals.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/table.h"
#include "service/query/run_report.h"

namespace ranklog::cli {
namespace {

constexpr char kUnreadable[] = "cannot be read";

std::string NameOfTarget(const imports::Target& target) {
  return Printable(absl::StrCat(target.project, ":", target.run_id));
}

bool Failed(const LogJob& job) { return !job.skipped && !job.status.ok(); }

// What keeps the run from its destination, in addition to the status.
std::vector<std::string> Causes(const LogJob& job) {
  std::vector<std::string> causes;
  if (!Failed(job) || !job.sync->HasReport()) return causes;
  for (const query::DestinationReport& to : job.sync->report().destinations) {
    if (!to.last_error.empty()) causes.push_back(to.last_error);
    if (to.refused_rows == 0) continue;
    const Globals own{.state_dir = job.sync->state_dir(), .address = ""};
    causes.push_back(absl::StrCat(Counted(to.refused_rows, "row"), " refused; see `",
                                  own.Command("dead latest"), "`"));
  }
  return causes;
}

model::Json LogJson(const imports::RunLog& log) {
  return {{"path", log.path},
          {"started", static_cast<double>(log.started_us) / 1e6},
          {"bytes", log.bytes}};
}

}  // namespace

std::string LogSyncReport::ResultOf(const LogJob& job) const {
  if (job.skipped) return "already synced";
  if (absl::IsDataLoss(job.status)) return "incomplete";  // what could be read is delivered
  if (!job.status.ok()) return "failed";
  if (!dry_run_) return "delivered";
  return job.sync->IsKnown() ? "would be continued" : "would be sent";
}

std::string LogSyncReport::Table(const Terminal& terminal) const {
  cli::Table table({"DIRECTORY", "RUN", "STARTED", "SIZE", "ROWS", "RESULT"});
  for (const LogJob& job : jobs_) {
    std::string rows;
    if (job.sync->HasReport()) {
      const query::RunReport& report = job.sync->report();
      const query::DestinationReport& to = report.destinations.front();
      rows = absl::StrCat(to.delivered_rows + to.replayed_rows, "/", report.run.rows);
    }
    for (const imports::RunLog& log : job.sync->logs()) {
      table.AddRow({Printable(log.name), NameOfTarget(job.sync->target()), TimeText(log.started_us),
                    BytesText(static_cast<int64_t>(log.bytes)), rows, ResultOf(job)});
    }
  }
  for (const UnreadableLog& log : unreadable_) {
    table.AddRow({Printable(log.name), "", "", "", "", kUnreadable});
  }
  return table.ToString(terminal);
}

// A run that was imported has the members of `ranklog runs --json`, too.
model::Json LogSyncReport::ToJson(const LogJob& job) const {
  model::Json json = model::Json::object();
  if (job.sync->HasReport()) json = query::ToJson(job.sync->report());
  const imports::Target& target = job.sync->target();
  json["run_id"] = target.run_id;
  json["project"] = target.project;
  json["entity"] = target.entity;
  json["state_dir"] = job.sync->state_dir();
  model::Json logs = model::Json::array();
  for (const imports::RunLog& log : job.sync->logs()) logs.push_back(LogJson(log));
  json["logs"] = std::move(logs);
  json["notes"] = job.notes;
  json["result"] = ResultOf(job);
  std::vector<std::string> reason = Causes(job);
  if (Failed(job)) reason.insert(reason.begin(), std::string(job.status.message()));
  json["why"] = absl::StrJoin(reason, "; ");
  return json;
}

std::string LogSyncReport::Json() const {
  return PrettyJsonArray(jobs_.size() + unreadable_.size(), [this](size_t i) {
    if (i < jobs_.size()) return ToJson(jobs_[i]);
    const UnreadableLog& log = unreadable_[i - jobs_.size()];
    return model::Json{{"logs", model::Json::array({{{"path", log.path}}})},
                       {"notes", model::Json::array()},
                       {"result", kUnreadable},
                       {"why", std::string(log.why.message())}};
  });
}

void LogSyncReport::Explain() const {
  for (const LogJob& job : jobs_) {
    const std::string name = NameOfTarget(job.sync->target());
    for (const std::string& note : job.notes) {
      std::cerr << name << ": " << Printable(note) << "\n";
    }
    if (Failed(job)) std::cerr << name << ": " << job.status.message() << "\n";
    for (const std::string& cause : Causes(job)) {
      std::cerr << name << ": " << Printable(cause) << "\n";
    }
  }
  for (const UnreadableLog& log : unreadable_) {
    std::cerr << Printable(log.name) << ": " << log.why.message() << "\n";
  }
}

absl::Status LogSyncReport::Result() const {
  const size_t failed =
      unreadable_.size() + static_cast<size_t>(std::count_if(jobs_.begin(), jobs_.end(), Failed));
  if (failed == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      failed, " of ", Counted(jobs_.size() + unreadable_.size(), "run"),
      failed == 1 ? " is" : " are", dry_run_ ? " not readable" : " not completely delivered"));
}

}  // namespace ranklog::cli
