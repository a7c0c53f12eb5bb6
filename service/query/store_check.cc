#include "service/query/store_check.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/query/row_reader.h"
#include "service/query/run_report.h"

namespace ranklog::query {
namespace {

// The rows of a stream or of a run, by position.
struct Rows {
  uint64_t begin;  // positions [begin, end) are expected
  uint64_t end;
  bool steps_grow;  // from row to row; if false, steps may repeat
  uint64_t lost;    // number of rows that are known to be missing, at any position
  // The batch with it, or the next one.
  absl::FunctionRef<absl::StatusOr<Batches>(uint64_t position)> batch;
  // Last position of that batch.
  absl::FunctionRef<absl::StatusOr<uint64_t>(uint64_t position)> batch_end;
  ShapeSource shapes;
};

// The position of the first row whose step is not larger than the previous step.
absl::optional<uint64_t> FindStepBack(const model::Batch& batch, int64_t* last_step) {
  absl::optional<uint64_t> found;
  model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t position) {
    if (block.steps[row] <= *last_step && !found.has_value()) found = position;
    *last_step = block.steps[row];
  });
  return found;
}

// Reads batch by batch, so that a damaged batch affects only its own rows. Returns the number of
// rows found, and subtracts missing rows from `rows->lost`.
absl::StatusOr<uint64_t> Check(Rows* checked, absl::FunctionRef<void(uint64_t rows)> read,
                               Findings* findings) {
  Rows& rows = *checked;
  const auto missing = [&](uint64_t first, uint64_t last) {
    const uint64_t count = last - first + 1;
    if (count > rows.lost) return findings->Add(absl::StrCat(RowsText(first, last), ": missing"));
    rows.lost -= count;
  };
  Shapes shapes;
  uint64_t intact = 0;
  int64_t last_step = -1;
  for (uint64_t next = rows.begin; next < rows.end;) {
    const uint64_t before = next;
    const absl::StatusOr<uint64_t> end = rows.batch_end(next);
    if (absl::IsNotFound(end.status())) {
      missing(next, rows.end - 1);
      read(rows.end - next);
      break;
    }
    RETURN_IF_ERROR(end.status());
    if (*end < next) return absl::DataLossError("the index of the batches is damaged");
    absl::StatusOr<Batches> batches = rows.batch(next);
    next = *end + 1;
    absl::Status status = batches.status();
    if (status.ok() && batches->empty()) status = absl::DataLossError("the batch is missing");
    if (status.ok()) status = LearnShapes(batches->front().batch, rows.shapes, &shapes);
    if (status.ok()) {
      const model::Batch& batch = batches->front().batch;
      if (batch.first > before) {
        missing(before, batch.first - 1);
      } else if (batch.first < before) {
        findings->Add(absl::StrCat(RowsText(batch.first, before - 1), ": there twice"));
      }
      intact += std::min(batch.last, rows.end - 1) - std::max(batch.first, before) + 1;
      if (const auto back = FindStepBack(batch, &last_step); rows.steps_grow && back) {
        findings->Add(
            absl::StrCat("row ", *back, ": its step is not greater than the previous step"));
      }
    } else if (absl::IsDataLoss(status)) {
      findings->Add(absl::StrCat("the batch of rows up to ", *end,
                                 " is damaged: ", absl::string_view(status.message())));
    } else {
      return status;
    }
    read(std::min(next, rows.end) - before);
  }
  return intact;
}

absl::Status CheckStream(storage::StoreReader& reader, storage::StoreAudit& audit,
                         const model::Stream& stream, absl::FunctionRef<void(uint64_t rows)> read,
                         RankCheck* rank) {
  rank->late += stream.late_rows;
  if (model::SpoolIsUnread(stream)) {
    rank->findings.Add(absl::StrCat("rows may be missing (number unknown): ", stream.reason));
  }
  rank->replayed += stream.replayed_rows;
  rank->merged += static_cast<uint64_t>(stream.merged_rows);
  rank->losses += stream.losses;
  if (stream.aggregated_seq > stream.durable_seq) {
    rank->findings.Add(absl::StrCat("stream ", stream.id, " counts ", stream.aggregated_seq,
                                    " aggregated rows, but has ", stream.durable_seq));
  } else {
    rank->waiting += stream.durable_seq - stream.aggregated_seq;
  }
  const auto batch = [&](uint64_t seq) { return reader.StreamBatches(stream.id, seq - 1, 1); };
  const auto end = [&](uint64_t seq) { return audit.StreamBatchEnd(stream.id, seq - 1); };
  const auto shapes = [&] { return reader.Shapes(stream.id); };
  // Rows that were lost with an earlier store are before the first row of this store. A recovered
  // store lacks rows at any position, and also counts rows after its last one.
  Rows rows{
      1,     stream.durable_seq + 1, /*steps_grow=*/false, stream.losses.with_store, batch, end,
      shapes};
  ASSIGN_OR_RETURN(const uint64_t intact, Check(&rows, read, &rank->findings));
  rank->intact += intact;
  rank->rows += stream.durable_seq - (stream.losses.with_store - rows.lost);
  return absl::OkStatus();
}

absl::Status CheckRun(storage::StoreReader& reader, storage::StoreAudit& audit,
                      const model::Run& run, absl::FunctionRef<void(uint64_t rows)> read,
                      StoreCheck* check) {
  const auto batch = [&](uint64_t index) { return reader.RunBatches(run.id, index, 1); };
  const auto end = [&](uint64_t index) { return audit.RunBatchEnd(run.id, index); };
  const auto shapes = [&] { return reader.RunShapes(run.id); };
  check->rows = run.rows;
  Rows rows{0, run.rows, /*steps_grow=*/true, /*lost=*/0, batch, end, shapes};
  ASSIGN_OR_RETURN(check->intact, Check(&rows, read, &check->findings));
  const auto replay_batch = [&](uint64_t at) { return reader.ReplayBatches(run.id, at, 1); };
  const auto replay_end = [&](uint64_t at) { return audit.ReplayBatchEnd(run.id, at); };
  check->replays = run.replays;
  Rows replays{0, run.replays, /*steps_grow=*/false, /*lost=*/0, replay_batch, replay_end, shapes};
  ASSIGN_OR_RETURN(check->intact_replays, Check(&replays, read, &check->findings));
  return absl::OkStatus();
}

// Counts the run's items for their ranks. An item that cannot be read makes all of them unreadable,
// since a config consists of all items.
absl::Status CheckItems(storage::StoreReader& reader, const model::Run& run,
                        const std::vector<model::Stream>& streams,
                        std::map<uint32_t, RankCheck>* ranks) {
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run.id, 0));
  for (const model::Stream& stream : streams) {
    RankCheck& rank = (*ranks)[stream.key.rank];
    rank.lost_items += stream.lost_items;
    rank.items += stream.durable_item - stream.lost_items - stream.console_items;
    for (const model::StoredItem& stored : items) {
      if (stored.stream == stream.id) rank.intact_items += stored.item.count;
    }
  }
  return absl::OkStatus();
}

// Whether each aggregated row of the primary rank has a row of the run or is counted as something
// else. `run` and `streams` must be from the same moment.
void CheckSum(const model::Run& run, const std::vector<model::Stream>& streams, StoreCheck* check) {
  uint64_t due = 0;
  uint64_t replays = 0;
  for (const model::Stream& stream : streams) {
    if (!stream.primary) continue;
    due += stream.aggregated_seq - std::min(stream.aggregated_seq, stream.losses.with_store);
    due -= stream.late_rows + stream.replayed_rows + static_cast<uint64_t>(stream.merged_rows);
    replays += stream.replayed_rows;
  }
  if (due != run.rows) {
    check->findings.Add(absl::StrCat("it has ", Counted(run.rows, "row"),
                                     ", but the ranks' rows make ", static_cast<int64_t>(due)));
  }
  if (replays != run.replays) {
    check->findings.Add(
        absl::StrCat("it has ", run.replays, " replayed rows, but the ranks' rows make ", replays));
  }
  check->fits_run = due == run.rows && replays == run.replays;
}

// Records the error of a check as a finding, so that the other checks still run.
void Note(const absl::Status& status, Findings* findings) {
  if (!status.ok()) findings->Add(std::string(status.message()));
}

}  // namespace

RowSum StoreCheck::sum() const {
  RowSum sum;
  sum.fits_run = fits_run;
  for (const RankCheck& rank : ranks) {
    sum.rows += rank.rows;
    sum.placed += rank.placed();
    sum.merged += rank.merged;
    sum.replayed += rank.replayed;
    sum.late += rank.late;
    sum.waiting += rank.waiting;
    sum.missing += rank.missing();
  }
  return sum;
}

bool StoreCheck::ok() const {
  return file.empty() && findings.empty() && intact == rows && intact_replays == replays &&
         sum().holds() && std::all_of(ranks.begin(), ranks.end(), [](const RankCheck& rank) {
           return rank.findings.empty() && rank.intact == rank.rows &&
                  rank.intact_items >= rank.items;  // more may have arrived meanwhile
         });
}

absl::StatusOr<StoreCheck> CheckStore(
    storage::StoreReader& reader, storage::StoreAudit& audit, const model::Run& run,
    const std::function<void(uint64_t done, uint64_t total)>& progress) {
  StoreCheck check;
  reader.PassOverMissing();
  absl::StatusOr<std::vector<std::string>> file = audit.CheckFile();
  if (file.ok()) {
    for (std::string& line : *file) check.file.Add(std::move(line));
  } else {
    Note(file.status(), &check.file);
  }
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  const absl::StatusOr<model::Run> after = reader.GetRun(run.id);
  if (after.ok() && after->rows == run.rows && after->replays == run.replays &&
      after->late_rows == run.late_rows) {
    CheckSum(*after, streams, &check);
  }
  uint64_t total = run.rows + run.replays;
  for (const model::Stream& stream : streams) total += stream.durable_seq;
  uint64_t done = 0;
  const auto read = [&](uint64_t rows) { progress(done += rows, total); };
  std::map<uint32_t, RankCheck> ranks;
  for (const model::Stream& stream : streams) {
    RankCheck& rank = ranks[stream.key.rank];
    rank.rank = stream.key.rank;
    Note(CheckStream(reader, audit, stream, read, &rank), &rank.findings);
  }
  Note(CheckItems(reader, run, streams, &ranks), &check.findings);
  for (auto& [number, rank] : ranks) check.ranks.push_back(std::move(rank));
  Note(CheckRun(reader, audit, run, read, &check), &check.findings);
  // In that case the findings are meaningless.
  if (absl::IsNotFound(reader.GetRun(run.id).status())) {
    return absl::NotFoundError(
        absl::StrCat("run ", run.run_id, " was delivered and removed from the store meanwhile"));
  }
  return check;
}

}  // namespace ranklog::query
