// Reads a run back from a W&B server and compares it with the store.

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_config.h"
#include "service/base/status_macros.h"
#include "service/deliver/asker.h"
#include "service/deliver/run_shapes.h"
#include "service/deliver/wandb/api/base_url.h"
#include "service/deliver/wandb/api/run_read_back.h"
#include "service/deliver/wandb/api/run_standing.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/cursor.h"
#include "service/deliver/wandb/documents/config_document.h"
#include "service/deliver/wandb/documents/document_diff.h"
#include "service/deliver/wandb/documents/summary_document.h"
#include "service/deliver/wandb/history/history.h"
#include "service/deliver/wandb/history/history_diff.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver::wandb {
namespace {

// Room for each line of a page twice, escaped once more. Usual answers are far smaller, unless a
// line is at its limit.
constexpr size_t kMaxAnswer = 64 << 20;
// Read from the store at a time: about the rows of a page.
constexpr size_t kComparedBytes = 64 << 10;
constexpr int64_t kSharedLines = 10000;  // lines of others that a page may have besides ours

HttpRequest GraphqlRequest(const std::string& base_url, std::string body) {
  HttpRequest request;
  request.url = GraphqlUrl(base_url);
  request.headers = {{"Content-Type", "application/json"}};
  request.body = std::move(body);
  request.max_answer = kMaxAnswer;
  return request;
}

// Makes the expected lines of a run from its rows in the store, one page at a time.
class ExpectedLines {
 public:
  ExpectedLines(storage::StoreReader* reader, const model::Run& run, size_t max_line_bytes)
      : reader_(*reader),
        run_(run),
        own_(&no_definitions_, RunClock(), max_line_bytes),
        with_added_(&definitions_, RunClock(), max_line_bytes) {}

  // Reads the definitions that apply according to `cursor`, and the rows that are bare at the
  // server.
  absl::Status Prepare(absl::string_view kind, const Cursor& cursor) {
    own_.SetFirstStep(cursor.replays_through);
    with_added_.SetFirstStep(cursor.replays_through);
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader_.Streams(run_.id));
    own_.SetClock(RunClock(run_, streams, cursor.runtime_before_us));
    with_added_.SetClock(own_.clock());
    ASSIGN_OR_RETURN(const std::vector<model::StoredItem> updates, reader_.Items(run_.id, 0));
    cut_updates_ = cursor.cut_updates;
    for (const model::StoredItem& stored : updates) {
      if (stored.id <= cut_updates_) Define(stored.item);
    }
    ASSIGN_OR_RETURN(const std::vector<model::DeadLetter> letters, reader_.DeadLetters(run_.id));
    for (const model::DeadLetter& letter : letters) {
      if (absl::string_view(letter.kind) == kind && IsOfRow(letter)) bare_.insert(letter.row);
    }
    return absl::OkStatus();
  }

  uint64_t next() const { return own_.next(); }

  // Adds the definitions that arrived after the last line, because the summary uses all
  // definitions.
  void DefineRest(const std::vector<model::StoredItem>& updates) {
    for (const model::StoredItem& stored : updates) {
      if (stored.id > cut_updates_) Define(stored.item);
    }
  }

  // Keys whose values may differ.
  const std::set<std::string>& added() const { return added_; }
  // Of the rows read so far.
  aggregate::RunSummary& summary() { return with_added_.summary(); }
  model::Json SummaryJson() const { return with_added_.SummaryJson(); }

  // The next lines, up to row `to` at most. Stops before a replay.
  absl::StatusOr<std::vector<ExpectedLine>> Page(uint64_t to, size_t max_bytes) {
    HistoryLines own;
    HistoryLines added;
    own.first = added.first = next();
    while (next() < to && own.line_bytes < max_bytes && (own.ends.empty() || !own_.at_replay())) {
      const uint64_t before = next();
      ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                       reader_.RunBatches(run_.id, before, kComparedBytes));
      for (const storage::StoredBatch& stored : batches) {
        RETURN_IF_ERROR(ReadShapes(reader_, run_.id, stored.batch, &shapes_));
        if (own.ends.empty()) {
          own_.SkipReplays(stored.batch, shapes_, to);
          with_added_.SkipReplays(stored.batch, shapes_, to);
          own.first = added.first = next();
        }
        own_.Write(stored.batch, shapes_, to, max_bytes, bare_, &own);
        if (added_.empty()) {
          with_added_.Skip(stored.batch, shapes_, next());
        } else {
          with_added_.Write(stored.batch, shapes_, next(), SIZE_MAX, bare_, &added);
        }
        if (own_.at_replay()) break;
      }
      if (next() == before) {
        return absl::DataLossError(absl::StrCat("row ", before, " is not in the store"));
      }
    }
    return Join(own, added);
  }

 private:
  void Define(const model::Item& update) {
    if (update.kind != model::Item::Kind::kMetric) return;
    definitions_.Define(update.metric);
    if (update.metric.step_sync && !update.metric.step_metric.empty()) {
      added_.insert(update.metric.step_metric);
    }
  }

  std::vector<ExpectedLine> Join(const HistoryLines& own, const HistoryLines& added) const {
    std::vector<ExpectedLine> lines;
    for (size_t i = 0; i < own.steps.size(); ++i) {
      const uint64_t row = own.first + i;
      lines.push_back({.row = row,
                       .step = own.steps[i],
                       .line = Unquoted(own.Of(row, 1)),
                       .with_added = added_.empty() ? "" : Unquoted(added.Of(row, 1)),
                       .bare = bare_.count(row) > 0});
    }
    return lines;
  }

  storage::StoreReader& reader_;
  const model::Run& run_;
  const aggregate::MetricTable no_definitions_;
  aggregate::MetricTable definitions_;
  int64_t cut_updates_ = 0;      // later definitions apply to no line
  std::set<std::string> added_;  // keys that definitions may add to rows
  std::set<uint64_t> bare_;
  std::vector<std::vector<std::string>> shapes_;
  History own_;
  History with_added_;
};

// Compares with the documents that the delivery sends for an ended run.
absl::Status CompareWith(const RunDocuments& found, storage::StoreReader& reader,
                         const model::Run& run, const model::Delivery& delivery,
                         ExpectedLines* expected, ReadBackReport* report) {
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> updates, reader.Items(run.id, 0));
  // The official client also leaves this key to the server.
  DocumentOptions options = {
      .wrapped = true, .shared = report->base_lines > 0, .free = {"wandb_version"}};
  report->config = CompareDocuments(
      ToJsonText(ConfigDocument(aggregate::RunConfig(run, streams, updates), model::Json::array())),
      found.config, options);
  uint64_t lost_rows = delivery.refused_rows;
  for (const model::Stream& stream : streams) {
    lost_rows += stream.losses.total() + stream.late_rows;
  }
  expected->DefineRest(updates);
  for (const aggregate::SummaryValue& value : aggregate::SummaryValues(streams, updates)) {
    expected->summary().Set(value);
  }
  options = {.wrapped = false, .shared = options.shared, .free = expected->added()};
  const Cursor cursor = CursorFrom(delivery.cursor);
  report->summary =
      CompareDocuments(SummaryDocument(run, RunClock(run, streams, cursor.runtime_before_us),
                                       expected->SummaryJson(), cursor.summary_before, lost_rows,
                                       WandbDelivery::Options().max_line_bytes),
                       found.summary, options);
  return absl::OkStatus();
}

}  // namespace

// Compares the server's lines with the lines that the store's rows make, one range of steps at a
// time. Rows with dead letters are expected without values. Then compares the config and the
// summary by key. Values that `step_sync` adds are not compared, because they depend on when a
// definition arrived.
absl::StatusOr<ReadBackReport> WandbDestination::ReadBack(
    storage::StoreReader& reader, const model::Run& run, const model::Delivery& delivery,
    Transport& transport, const Credential& credential, const ReadBackOptions& options) const {
  const Cursor cursor = CursorFrom(delivery.cursor);
  ASSIGN_OR_RETURN(const std::string base_url, ServerOf(run.settings));
  const Asker asker(*this, &transport, credential, options);
  const auto ask = [&](std::string body) {
    return asker.Ask(GraphqlRequest(base_url, std::move(body)));
  };
  ExpectedLines expected(&reader, run, WandbDelivery::Options().max_line_bytes);
  RETURN_IF_ERROR(expected.Prepare(delivery.kind, cursor));

  const uint64_t rows = delivery.delivered_rows;
  const uint64_t replays = delivery.replayed_rows();
  ReadBackReport report;
  report.sent = rows - replays;
  report.base_lines = cursor.base_offset + static_cast<int64_t>(replays);
  report.continued = cursor.continued;
  const bool shared = report.base_lines > 0 || cursor.continued;
  HistoryQuery query = {
      .entity = cursor.entity, .project = cursor.project, .run_id = cursor.run_id};
  do {
    ASSIGN_OR_RETURN(
        const std::vector<ExpectedLine> lines,
        expected.Page(std::min(expected.next() + options.page_rows, rows), options.page_bytes));
    if (lines.empty() && expected.next() < rows) continue;  // only replays
    query.min_step = shared && !lines.empty() ? lines.front().step : query.max_step;
    query.max_step = lines.empty() ? query.min_step + 1 : lines.back().step + 1;
    // Leaves room for duplicates, so that they are found.
    query.max_lines =
        2 * static_cast<int64_t>(lines.size()) + 100 + std::min(report.base_lines, kSharedLines);
    ASSIGN_OR_RETURN(const std::string answer, ask(HistoryBody(query)));
    ASSIGN_OR_RETURN(const HistoryPage page, ParseHistory(answer));
    // If no row was sent, lines found here were sent a moment ago and are not compared.
    if (!lines.empty()) AddPage(lines, page.lines, shared, &report.diff);
    report.lines = page.line_count;
    report.state = page.state;
    options.progress(expected.next(), rows);
  } while (expected.next() < rows);

  const int64_t kept_back =
      report.lines - report.base_lines - static_cast<int64_t>(report.diff.lines());
  if (!cursor.continued) {
    report.not_checked = std::min<uint64_t>(report.diff.missing, std::max<int64_t>(kept_back, 0));
  }
  report.diff.missing -= report.not_checked;
  if (report.diff.missing == 0) report.diff.gaps.clear();
  if (!delivery.complete || cursor.continued) return report;
  ASSIGN_OR_RETURN(const std::string answer,
                   ask(DocumentsBody(cursor.entity, cursor.project, cursor.run_id)));
  ASSIGN_OR_RETURN(const RunDocuments documents, ParseDocuments(answer));
  RETURN_IF_ERROR(CompareWith(documents, reader, run, delivery, &expected, &report));
  return report;
}

absl::StatusOr<int64_t> WandbDestination::LastStep(const model::Run& run, Transport& transport,
                                                   const Credential& credential,
                                                   const ReadBackOptions& options) const {
  ASSIGN_OR_RETURN(const std::string base_url, ServerOf(run.settings));
  const Asker asker(*this, &transport, credential, options);
  ASSIGN_OR_RETURN(const std::string answer,
                   asker.Ask(GraphqlRequest(
                       base_url, StandingBody(run.settings.entity, run.project, run.run_id))));
  const absl::StatusOr<ServerRunState> standing = ParseStanding(answer);
  if (absl::IsNotFound(standing.status())) return -1;
  RETURN_IF_ERROR(standing.status());
  return standing->last_step;
}

}  // namespace ranklog::deliver::wandb
