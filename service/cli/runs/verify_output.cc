#include "service/cli/runs/verify_output.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/output/table.h"

namespace ranklog::cli {
namespace {

using deliver::DocumentDiff;
using deliver::HistoryDiff;
using model::Json;

// The figures of one destination; for `local`, those of the store.
struct Figures {
  uint64_t sent = 0;
  uint64_t present = 0;
  HistoryDiff diff;
  uint64_t not_checked = 0;
  uint64_t missing = 0;
  uint64_t dead = 0;  // rows of which a value is refused, or cannot be held
};

Figures FiguresOf(const VerifyReport& report, const DestinationCheck& destination) {
  Figures figures;
  if (destination.report.kind == query::kLocal) {
    figures.sent = report.store.rows;
    figures.present = report.store.intact;
    figures.missing = figures.sent - std::min(figures.sent, figures.present);
  } else if (destination.read_back.has_value()) {
    figures.sent = destination.read_back->sent;
    figures.diff = destination.read_back->diff;
    figures.present = figures.diff.matching;
    figures.missing = figures.diff.missing;
    figures.not_checked = destination.read_back->not_checked;
  } else {
    figures.sent = destination.report.delivered_rows + destination.report.refused_rows;
    figures.not_checked = figures.sent;
  }
  figures.dead = destination.report.refused_rows + figures.diff.not_held;
  return figures;
}

Json DocumentJson(const DocumentDiff& diff) {
  return {{"compared", diff.compared},   {"keys", diff.keys()},
          {"there", diff.matching},      {"missing", diff.missing},
          {"differing", diff.differing}, {"unexpected", diff.unexpected}};
}

std::string DocumentText(const char* name, const DocumentDiff& diff) {
  if (!diff.compared) return absl::StrCat(name, " not compared");
  return absl::StrCat(name, " ", diff.matching, " of ", Counted(diff.keys(), "key"));
}

Json Texts(const query::Findings& findings) {
  Json array = Json::array();
  for (const std::string& text : findings.texts()) array.push_back(text);
  return array;
}

Json RankJson(const query::RankCheck& rank) {
  return {{"rank", rank.rank},
          {"rows", rank.rows},
          {"there", rank.intact},
          {"waiting_rows", rank.waiting},
          {"late_rows", rank.late},
          {"placed_rows", rank.placed()},
          {"merged_rows", rank.merged},
          {"replayed_rows", rank.replayed},
          {"missing_rows", rank.missing()},
          {"items", rank.items},
          {"intact_items", rank.intact_items},
          {"lost_items", rank.lost_items},
          {"refused_items", rank.losses.items},
          {"lost", rank.losses.total()},
          {"losses", query::LossesJson(rank.losses)},
          {"problems", Texts(ProblemsOf(rank))}};
}

Json DestinationJson(const VerifyReport& report, const DestinationCheck& destination) {
  const Figures figures = FiguresOf(report, destination);
  const query::Findings problems = ProblemsOf(report, destination);
  Json gaps = Json::array();
  for (const HistoryDiff::Rows& gap : figures.diff.gaps) {
    gaps.push_back({{"first", gap.first}, {"last", gap.last}});
  }
  Json json = {{"kind", destination.report.kind},
               {"ok", problems.empty()},
               {"rows", report.run.run.rows},
               {"sent", figures.sent},
               {"there", figures.present},
               {"pending_rows", destination.report.pending_rows},
               {"pending_items", destination.report.pending_items},
               {"missing", figures.missing},
               {"gaps", gaps},
               {"duplicates", figures.diff.duplicates},
               {"differing", figures.diff.differing},
               {"unexpected", figures.diff.unexpected},
               {"dead_letters", figures.dead},
               {"replayed_rows", destination.report.replayed_rows},
               {"not_checked", figures.not_checked},
               {"problems", Texts(problems)}};
  if (destination.read_back.has_value()) {
    json["lines"] = destination.read_back->lines;
    json["base_lines"] = destination.read_back->base_lines;
    json["state"] = destination.read_back->state;
    json["config"] = DocumentJson(destination.read_back->config);
    json["summary"] = DocumentJson(destination.read_back->summary);
  }
  return json;
}

std::string Tables(const VerifyReport& report, const Terminal& terminal) {
  Table ranks(
      {"RANK", "ROWS", "THERE", "MERGED", "REPLAYED", "LATE", "WAITING", "MISSING", "LOST"});
  for (const query::RankCheck& rank : report.store.ranks) {
    ranks.AddRow({absl::StrCat(rank.rank), absl::StrCat(rank.rows), absl::StrCat(rank.placed()),
                  absl::StrCat(rank.merged), absl::StrCat(rank.replayed), absl::StrCat(rank.late),
                  absl::StrCat(rank.waiting), absl::StrCat(rank.missing()),
                  absl::StrCat(rank.losses.total())});
  }
  Table table({"DESTINATION", "ROWS", "SENT", "THERE", "PENDING", "MISSING", "DUPLICATE",
               "DIFFERING", "DEAD", "NOT CHECKED"});
  for (const DestinationCheck& destination : report.destinations) {
    const Figures figures = FiguresOf(report, destination);
    table.AddRow({destination.report.kind, absl::StrCat(report.run.run.rows),
                  absl::StrCat(figures.sent), absl::StrCat(figures.present),
                  absl::StrCat(destination.report.pending_rows), absl::StrCat(figures.missing),
                  absl::StrCat(figures.diff.duplicates), absl::StrCat(figures.diff.differing),
                  absl::StrCat(figures.dead), absl::StrCat(figures.not_checked)});
  }
  return absl::StrCat(ranks.ToString(terminal), "\n", table.ToString(terminal));
}

std::string SumText(const query::RowSum& sum) {
  return absl::StrCat("rows: ", sum.rows, sum.holds() ? " = " : ", not ", sum.placed, " there + ",
                      sum.merged, " merged + ", sum.replayed, " replayed + ", sum.late, " late + ",
                      sum.waiting, " waiting + ", sum.missing, " missing\n");
}

// One line for each finding, starting with its place.
std::string Lines(const std::string& where, const query::Findings& findings,
                  const Terminal& terminal) {
  std::string text;
  for (const std::string& line : findings.texts()) {
    std::vector<std::string> parts;
    for (absl::string_view part : absl::StrSplit(line, '\n')) parts.push_back(Printable(part));
    absl::StrAppend(&text, where, ": ", terminal.Red(absl::StrJoin(parts, "\n    ")), "\n");
  }
  if (const uint64_t more = findings.count() - findings.texts().size(); more > 0) {
    absl::StrAppend(&text, where, ": ", more, " more like these\n");
  }
  return text;
}

}  // namespace

Json ToJson(const VerifyReport& report) {
  Json ranks = Json::array();
  for (const query::RankCheck& rank : report.store.ranks) ranks.push_back(RankJson(rank));
  Json destinations = Json::array();
  for (const DestinationCheck& destination : report.destinations) {
    destinations.push_back(DestinationJson(report, destination));
  }
  const query::RowSum sum = report.store.sum();
  Json problems = Texts(report.store.file);
  for (const std::string& text : report.store.findings.texts()) problems.push_back(text);
  Json joined;
  if (const auto& counts = report.run.joined) {
    joined = {{"rows", counts->rows},
              {"joined", counts->joined},
              {"late", counts->late},
              {"complete", counts->complete},
              {"problems", Texts(ProblemsOf(report.run))}};
  }
  return {{"run_id", report.run.run.run_id},
          {"name", report.run.run.name},
          {"project", report.run.run.project},
          {"state", std::string(model::Name(report.run.run.state))},
          {"ok", report.ok()},
          {"store",
           {{"ok", report.store.ok()},
            {"rows", report.store.rows},
            {"there", report.store.intact},
            {"replays", report.store.replays},
            {"replays_there", report.store.intact_replays},
            {"problems", problems}}},
          {"sum",
           {{"rows", sum.rows},
            {"placed", sum.placed},
            {"merged", sum.merged},
            {"replayed", sum.replayed},
            {"late", sum.late},
            {"waiting", sum.waiting},
            {"missing", sum.missing},
            {"holds", sum.holds()}}},
          {"spools",
           {{"rows", UnreadRows(report.spools)}, {"problems", Texts(ProblemsOf(report.spools))}}},
          {"joined", joined},
          {"world_size", report.run.world_size},
          {"heard_ranks", report.run.heard_ranks},
          {"ranks", ranks},
          {"destinations", destinations}};
}

std::string ToText(const VerifyReport& report, const Terminal& terminal) {
  const model::Run& run = report.run.run;
  std::string text =
      absl::StrCat(terminal.Bold(Printable(run.name.empty() ? run.run_id : run.name)), "  ",
                   Printable(absl::StrCat(run.project, ":", run.run_id)), "  ",
                   std::string(model::Name(run.state)), "\n\n", Tables(report, terminal), "\n",
                   SumText(report.store.sum()));
  if (const std::string joined = query::JoinedText(report.run); !joined.empty()) {
    absl::StrAppend(&text, "joined: ", joined, "\n");
  }
  if (const std::string heard = query::HeardText(report.run); !heard.empty()) {
    absl::StrAppend(&text, "ranks: ", heard, "\n");
  }
  absl::StrAppend(&text, Lines("file", report.store.file, terminal),
                  Lines("run", report.store.findings, terminal),
                  Lines("joined", ProblemsOf(report.run), terminal),
                  Lines("spools", ProblemsOf(report.spools), terminal));
  for (const query::RankCheck& rank : report.store.ranks) {
    absl::StrAppend(&text, Lines(absl::StrCat("rank ", rank.rank), ProblemsOf(rank), terminal));
  }
  for (const DestinationCheck& destination : report.destinations) {
    if (destination.report.kind == query::kLocal)
      continue;  // same as the store, which is listed above
    absl::StrAppend(&text,
                    Lines(destination.report.kind, ProblemsOf(report, destination), terminal));
    if (destination.read_back.has_value()) {
      absl::StrAppend(&text, destination.report.kind, ": ",
                      DocumentText("config", destination.read_back->config), ", ",
                      DocumentText("summary", destination.read_back->summary), "\n");
    }
    if (const uint64_t replayed = destination.report.replayed_rows; replayed > 0) {
      absl::StrAppend(&text, destination.report.kind, ": ", Counted(replayed, "row"),
                      " replayed: the server has their steps from another node, so they are not "
                      "sent\n");
    }
    const uint64_t not_checked = FiguresOf(report, destination).not_checked;
    if (not_checked > 0 && destination.error.empty()) {
      absl::StrAppend(&text, destination.report.kind, ": ", Counted(not_checked, "row"),
                      destination.read_back.has_value()
                          ? " counted by the server, but not returned, so not compared\n"
                          : absl::StrCat(" written to ", Printable(destination.report.url),
                                         ", not read back\n"));
    }
  }
  if (report.ok()) absl::StrAppend(&text, terminal.Green("all is there"), "\n");
  return text;
}

}  // namespace ranklog::cli
