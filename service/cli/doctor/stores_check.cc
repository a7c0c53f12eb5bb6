#include "service/cli/doctor/stores_check.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/spools/salvage_report.h"
#include "service/cli/output/progress_bar.h"
#include "service/query/select_run.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr size_t kReadBytes = 4 << 20;
constexpr size_t kMaxNamesBytes = 200;  // limit for the names of damaged runs
// Larger files are not examined, because a copy could fill the directory for temporary files.
constexpr uint64_t kMaxLookedInto = 256 << 20;

// Reads all batches. `batches` returns batches from a position on.
absl::Status ReadAll(
    uint64_t next,
    absl::FunctionRef<absl::StatusOr<std::vector<storage::StoredBatch>>(uint64_t)> batches) {
  while (true) {
    ASSIGN_OR_RETURN(const auto read, batches(next));
    if (read.empty()) return absl::OkStatus();
    next = read.back().batch.last + 1;
  }
}

absl::Status ReadRun(storage::StoreReader& reader, int64_t run) {
  RETURN_IF_ERROR(reader.Items(run, 0).status());
  RETURN_IF_ERROR(reader.RunShapes(run).status());
  RETURN_IF_ERROR(ReadAll(0, [&](uint64_t at) { return reader.RunBatches(run, at, kReadBytes); }));
  RETURN_IF_ERROR(
      ReadAll(0, [&](uint64_t at) { return reader.ReplayBatches(run, at, kReadBytes); }));
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run));
  for (const model::Stream& stream : streams) {
    RETURN_IF_ERROR(reader.Shapes(stream.id).status());
    RETURN_IF_ERROR(ReadAll(
        1, [&](uint64_t at) { return reader.StreamBatches(stream.id, at - 1, kReadBytes); }));
  }
  return absl::OkStatus();
}

// Finds runs with unreadable data. Reads all rows.
absl::Status FindDamagedRuns(storage::StoreReader& reader, std::vector<std::string>* damaged) {
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  ProgressBar progress("read the store", /*lines=*/false);
  uint64_t done = 0;
  for (const model::Run& run : runs) {
    const absl::Status status = ReadRun(reader, run.id);
    if (absl::IsNotFound(status)) continue;  // it was delivered and removed in the meantime
    if (!absl::IsDataLoss(status)) RETURN_IF_ERROR(status);
    if (!status.ok()) damaged->push_back(run.run_id);
    progress.Update(++done, runs.size());
  }
  return absl::OkStatus();
}

std::string RecoverAdvice(const std::string& dir, const std::string& path) {
  return absl::StrCat(storage::StateLock::Holder(dir) == 0 ? "" : "stop ranklogd, then ",
                      "save its readable rows; run: ranklog recover ", path);
}

// Describes what `ranklog recover` would save of the damaged store at `path`. False: nothing.
bool ExamineDamaged(const std::string& path, Finding* finding) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  absl::StrAppend(&finding->text, ", ", BytesText(static_cast<int64_t>(bytes)));
  if (error || bytes > kMaxLookedInto) return true;
  const auto salvaged = SalvageInScratch(path, std::filesystem::temp_directory_path(error), "");
  if (salvaged.ok()) {
    std::set<std::string> runs;
    for (const auto& stream : salvaged->streams) runs.insert(stream.run_id);
    finding->data.update(ToJson(*salvaged));
    absl::StrAppend(&finding->text, ", ", Counted(salvaged->saved_rows(), "row"), " of ",
                    Counted(runs.size(), "run"), " can be read, ", salvaged->lost_rows(),
                    " cannot");
    return true;
  }
  if (absl::IsDataLoss(salvaged.status())) {
    absl::StrAppend(&finding->text, ", no row can be read");
    return false;
  }
  absl::StrAppend(&finding->text,
                  ", not examined: ", absl::string_view(salvaged.status().message()));
  return true;
}

}  // namespace

Finding CheckStore(const Globals& globals, const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", storage::kStoreFile);
  Finding finding{"store", {{"path", path}}, path, ""};
  auto reader = storage::StoreReader::Open(dir);
  absl::Status status = reader.status();
  finding.data["present"] = !absl::IsNotFound(status);
  if (absl::IsNotFound(status)) {
    finding.text = "none yet";
    return finding;
  }
  std::vector<std::string> damaged_runs;
  if (status.ok()) status = (*reader)->Check();
  if (status.ok()) status = FindDamagedRuns(**reader, &damaged_runs);
  finding.data["intact"] = status.ok() && damaged_runs.empty();
  if (absl::IsDataLoss(status)) {
    finding.text = absl::StrCat("damaged: ", absl::string_view(status.message()));
    // While a daemon writes to the store, a copy of it may be damaged in other places.
    const bool any_row = storage::StateLock::Holder(dir) != 0 || ExamineDamaged(path, &finding);
    finding.advice = absl::StrCat("the next ranklogd sets it aside and creates a new store; ",
                                  any_row ? RecoverAdvice(dir, path) : kNoRowSaved);
    return finding;
  }
  if (!status.ok()) {
    finding.advice = std::string(status.message());
    return finding;
  }
  const auto runs = (*reader)->Runs();
  finding.data["damaged_runs"] = damaged_runs;
  absl::StrAppend(&finding.text, ", ", BytesText((*reader)->FileBytes().value_or(0)), ", ",
                  Counted(runs.ok() ? runs->size() : 0, "run"));
  if (damaged_runs.empty()) {
    absl::StrAppend(&finding.text, ", no damage found");
  } else {
    absl::StrAppend(&finding.text, ", ", damaged_runs.size(), " of them with damaged rows: ",
                    Printable(absl::StrJoin(damaged_runs, " ").substr(0, kMaxNamesBytes)));
    finding.advice =
        absl::StrCat("`", globals.Command("verify " + query::RunForCommand(damaged_runs)),
                     "` lists the rows; ", RecoverAdvice(dir, path));
  }
  return finding;
}

std::vector<Finding> ListLostRows(const std::vector<query::RunReport>& runs) {
  std::vector<std::string> names;
  model::Json data = model::Json::array();
  for (const query::RunReport& report : runs) {
    const std::pair<uint64_t, const char*> counts[] = {{report.losses.total(), " lost"},
                                                       {report.run.late_rows, " late"},
                                                       {report.run.replayed_rows, " replayed"}};
    std::vector<std::string> texts;
    for (const auto& [rows, what] : counts) {
      if (rows > 0) texts.push_back(absl::StrCat(rows, what));
    }
    if (texts.empty()) continue;
    names.push_back(
        absl::StrCat(Printable(report.run.run_id), " (", absl::StrJoin(texts, ", "), ")"));
    data.push_back({{"run_id", report.run.run_id},
                    {"lost", report.losses.total()},
                    {"late_rows", report.run.late_rows},
                    {"replayed_rows", report.run.replayed_rows}});
  }
  if (names.empty()) return {};
  std::string text = absl::StrJoin(names, ", ");
  if (text.size() > kMaxNamesBytes) text = absl::StrCat(text.substr(0, kMaxNamesBytes), " ...");
  return {
      {"rows", {{"runs", data}}, absl::StrCat("not in their runs, or logged again: ", text), ""}};
}

absl::optional<Finding> CheckOtherStore(const std::string& dir) {
  const auto reader = storage::StoreReader::Open(dir);
  if (!reader.ok()) return absl::nullopt;
  const auto runs = query::ReportRuns(**reader);
  if (!runs.ok()) return absl::nullopt;
  const auto open = std::count_if(runs->begin(), runs->end(), [](const query::RunReport& run) {
    return run.run.state == model::RunState::kRunning ||
           std::any_of(run.destinations.begin(), run.destinations.end(),
                       [&](const query::DestinationReport& to) { return IsOpen(run, to); });
  });
  Finding finding{"other store",
                  {{"path", dir}, {"runs", runs->size()}, {"waiting_runs", open}},
                  absl::StrCat(dir, ", ", Counted(runs->size(), "run")),
                  ""};
  if (open > 0 && storage::StateLock::Holder(dir) == 0) {
    finding.advice =
        absl::StrCat(Counted(static_cast<uint64_t>(open), "run"), open == 1 ? " waits" : " wait",
                     " there, and no daemon is running; run: ranklog sync --state-dir ", dir);
  }
  return finding;
}

Finding CheckSetAside(const std::string& path) {
  Finding finding{"set aside", {{"path", path}}, path, ""};
  std::error_code error;
  if (std::filesystem::exists(absl::StrCat(path, ".recovered"), error)) {
    finding.data["recovered"] = true;
    absl::StrAppend(&finding.text, ", saved in ", path, ".recovered");
    return finding;
  }
  finding.data["recovered"] = false;
  finding.advice = ExamineDamaged(path, &finding)
                       ? absl::StrCat("save its readable rows; run: ranklog recover ", path,
                                      " (or remove the file if you do not need it)")
                       : kNoRowSaved;
  return finding;
}

}  // namespace ranklog::cli
