// The texts and the JSON of run reports.

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/text/number_text.h"
#include "service/deliver/advice.h"
#include "service/query/run_report.h"

namespace ranklog::query {
namespace {

using model::Json;

Json TextOf(absl::string_view text) { return std::string(text); }

}  // namespace

Json LossesJson(const model::Losses& losses) {
  Json json = Json::object();
  for (const auto& [name, count] : model::kLossCounters) json[name] = losses.*count;
  return json;
}

std::string LossesText(const model::Losses& losses) {
  std::string text;
  for (const auto& [name, rows] : model::kLossReasons) {
    if (losses.*rows == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", losses.*rows);
  }
  return text;
}

std::string ValuesText(const model::Losses& losses) {
  if (losses.values == 0) return "";
  return absl::StrCat(Counted(losses.values, "value"), " left out of rows");
}

std::string ReplayedText(const DestinationReport& destination) {
  if (destination.replayed_rows == 0) return "";
  return absl::StrCat(", ", destination.replayed_rows, " replayed");
}

std::string UploadsText(const DestinationReport& destination) {
  if (destination.pending_files == 0) return "";
  return absl::StrCat(Counted(destination.pending_files, "file"), ", ",
                      BytesText(static_cast<int64_t>(destination.pending_file_bytes)));
}

std::vector<std::string> UnnamedTexts(const RunReport& report) {
  std::map<std::string, std::vector<uint32_t>> ranks;  // by reason
  for (const RankReport& rank : report.ranks) {
    if (!rank.unnamed.empty()) ranks[rank.unnamed].push_back(rank.rank);
  }
  std::vector<std::string> texts;
  for (const auto& [reason, of] : ranks) {
    texts.push_back(absl::StrCat(of.size() == 1 ? "rank " : "ranks ", absl::StrJoin(of, ", "),
                                 " of ", report.run.run_id, ": ", reason));
  }
  return texts;
}

std::string JoinedText(const RunReport& report) {
  if (!report.joined) return "";
  const JoinedReport& joined = *report.joined;
  return absl::StrCat(joined.joined, " of ", Counted(joined.rows, "row"), " joined those of rank 0",
                      joined.late > 0 ? absl::StrCat(", ", joined.late, " came too late") : "",
                      joined.complete ? "" : " so far");
}

std::string HeardText(const RunReport& report) {
  if (report.heard_ranks >= report.world_size) return "";
  return absl::StrCat(report.heard_ranks, " of ", report.world_size, " ranks have attached");
}

std::string InSpoolsText(const RunReport& report) {
  if (report.in_spools == 0) return "";
  return absl::StrCat(Counted(report.in_spools, "row"), " of ", report.run.run_id,
                      report.in_spools == 1 ? " is" : " are", " only in spools");
}

std::string StoppedText(const RunReport& report) {
  return absl::StrCat("run ", report.run.run_id, " is stopped: ", report.stopped);
}

std::vector<std::string> UnreadTexts(const RunReport& report) {
  std::vector<std::string> texts;
  for (const RankReport& rank : report.ranks) {
    if (rank.unread.empty()) continue;
    texts.push_back(absl::StrCat("rows may be missing (number unknown): ", rank.unread, " (run ",
                                 report.run.run_id, ")"));
  }
  return texts;
}

Json ToJson(const RunReport& report) {
  const model::Run& run = report.run;
  Json ranks = Json::array();
  for (const RankReport& rank : report.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"node", rank.node},
                     {"rows", rank.rows},
                     {"lost", rank.losses.total()},
                     {"losses", LossesJson(rank.losses)},
                     {"items", rank.items},
                     {"lost_items", rank.lost_items},
                     {"refused_items", rank.losses.items},
                     {"late_rows", rank.late_rows},
                     {"replayed_rows", rank.replayed_rows},
                     {"unnamed_spool", rank.unnamed},
                     {"unread_spool", rank.unread}});
  }
  Json destinations = Json::array();
  for (const DestinationReport& destination : report.destinations) {
    destinations.push_back({{"kind", destination.kind},
                            {"delivered_rows", destination.delivered_rows},
                            {"pending_rows", destination.pending_rows},
                            {"refused_rows", destination.refused_rows},
                            {"pending_items", destination.pending_items},
                            {"replayed_rows", destination.replayed_rows},
                            {"pending_files", destination.pending_files},
                            {"pending_file_bytes", destination.pending_file_bytes},
                            {"complete", destination.complete},
                            {"last_error", ErrorText(report, destination)},
                            {"set_apart", destination.set_apart},
                            {"url", destination.url}});
  }
  Json json = {{"run_id", run.run_id},
               {"name", run.name},
               {"group", run.settings.group},
               {"project", run.project},
               {"strategy", TextOf(model::Name(run.settings.strategy))},
               {"state", TextOf(model::Name(run.state))},
               {"rows", run.rows},
               {"last_step", run.last_step},
               {"ranks", ranks},
               {"destinations", destinations},
               {"late_rows", run.late_rows},
               {"replayed_rows", run.replayed_rows},
               {"in_spools", report.in_spools},
               {"world_size", report.world_size},
               {"heard_ranks", report.heard_ranks},
               {"local_only", run.local_only},
               {"notice", run.notice},
               {"refused", run.refused},
               {"stopped", report.stopped},
               {"entity", run.settings.entity},
               {"job_type", run.settings.job_type},
               {"tags", run.settings.tags},
               {"notes", run.settings.notes},
               {"started", static_cast<double>(run.started_us) / 1e6}};
  if (const auto& joined = report.joined) {
    json["joined"] = {{"rows", joined->rows},
                      {"joined", joined->joined},
                      {"late", joined->late},
                      {"complete", joined->complete}};
  }
  if (run.state != model::RunState::kRunning) {
    json["ended"] = static_cast<double>(run.ended_us) / 1e6;
    json["exit_code"] = run.exit_code;
    json["reason"] = run.reason;
  }
  return json;
}

std::string ErrorText(const RunReport& report, const DestinationReport& destination) {
  return deliver::WithRun(destination.last_error, report.run.run_id);
}

std::vector<std::pair<std::string, std::vector<std::string>>> WaitingReasons(
    const std::vector<RunReport>& reports, const std::string& kind) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const RunReport& report : reports) {
    for (const DestinationReport& destination : report.destinations) {
      if (destination.kind != kind || destination.last_error.empty()) continue;
      if (!IsOpen(report, destination)) continue;
      auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& reason) {
        return reason.first == destination.last_error;
      });
      if (found == reasons.end()) {
        found = reasons.insert(found, {destination.last_error, std::vector<std::string>()});
      }
      found->second.push_back(report.run.run_id);
    }
  }
  for (auto& [reason, runs] : reasons) {
    if (runs.size() == 1) reason = deliver::WithRun(reason, runs.front());
  }
  return reasons;
}

std::vector<std::string> WaitingTexts(const std::vector<RunReport>& reports,
                                      const std::string& kind) {
  constexpr size_t kShown = 3;  // runs per reason, so that the text stays on one line
  std::vector<std::string> texts;
  for (const auto& [reason, runs] : WaitingReasons(reports, kind)) {
    const auto end = runs.begin() + static_cast<std::ptrdiff_t>(std::min(runs.size(), kShown));
    texts.push_back(absl::StrCat(
        reason, " (run ", absl::StrJoin(runs.begin(), end, ", "),
        runs.size() > kShown ? absl::StrCat(" and ", runs.size() - kShown, " more") : "", ")"));
  }
  return texts;
}

}  // namespace ranklog::query
