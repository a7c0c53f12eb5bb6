#include "service/import/log_import.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/status_macros.h"
#include "service/base/utf8.h"

namespace ranklog::imports {
namespace {

using model::Item;
using model::Json;
using wandb_internal::Record;

constexpr char kNoExit[] =
    "its log has no exit: the program was killed, or had not ended when the log was imported";
constexpr char kWandb[] = "wandb";

// Such as "type 31": a newer program wrote it.
std::string TypeOf(const Record& record) {
  if (record.record_type_case() != Record::RECORD_TYPE_NOT_SET) {
    return record.GetDescriptor()->FindFieldByNumber(record.record_type_case())->name();
  }
  const auto& unknown = record.GetReflection()->GetUnknownFields(record);
  return unknown.empty() ? "empty" : absl::StrCat("type ", unknown.field(0).number());
}

}  // namespace

LogImport::LogImport(RunLog log, Options options, std::unique_ptr<wandb_log::LogReader> reader)
    : log_(std::move(log)),
      options_(std::move(options)),
      reader_(std::move(reader)),
      run_(log_.run) {}

absl::StatusOr<std::unique_ptr<LogImport>> LogImport::Open(const RunLog& log,
                                                           const Options& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<wandb_log::LogReader> reader,
                   wandb_log::LogReader::Open(log.path));
  return std::unique_ptr<LogImport>(new LogImport(log, options, std::move(reader)));
}

model::Session LogImport::SessionOf() const {
  const Target& target = options_.target;
  model::Session session;
  session.stream = {.project = target.project, .job_id = target.run_id, .incarnation = log_.id};
  model::RunSettings& settings = session.settings;
  settings.entity = target.entity;
  settings.name = run_.display_name();
  settings.group = run_.run_group();
  settings.job_type = run_.job_type();
  settings.notes = run_.notes();
  settings.tags = {run_.tags().begin(), run_.tags().end()};
  settings.destinations = {options_.kind};
  settings.destination_settings = options_.destination_settings;
  settings.rank_statistics = {"none"};
  settings.host = run_.host();
  settings.resume = "allow";
  settings.start_time_us = log_.started_us;
  settings.imported = true;
  if (run_.has_branch_point() && run_.branch_point().run() != run_.run_id()) {
    settings.destination_settings[kWandb]["fork_from"] = absl::StrCat(
        run_.branch_point().run(), "?_step=", static_cast<int64_t>(run_.branch_point().value()));
  }
  session.identity.local_world_size = 1;
  session.identity.node = run_.host();
  session.identity.client_version = absl::StrCat("wandb ", run_.telemetry().cli_version());
  return session;
}

model::RunAssignment LogImport::AssignmentOf() const {
  return {.run_id = options_.target.run_id, .name = run_.display_name(), .primary = true};
}

absl::Status LogImport::CheckOrder(storage::StoreReader& reader) const {
  const Target& target = options_.target;
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  for (const model::Run& run : runs) {
    if (run.project != target.project || run.run_id != target.run_id) continue;
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
    const model::Stream* later = nullptr;
    for (const model::Stream& stream : streams) {
      if (stream.key.incarnation == log_.id) return absl::OkStatus();
      if (stream.init_us > log_.started_us) later = &stream;
    }
    if (later == nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("run ", target.run_id, " was imported with a later part, of ",
                     absl::FormatTime(absl::FromUnixMicros(later->init_us)),
                     ", without this one, and a tracker takes rows only in their order"));
  }
  return absl::OkStatus();
}

absl::Status LogImport::Begin(storage::Store& store) {
  const model::Session session = SessionOf();
  RETURN_IF_ERROR(model::Validate(session));
  ASSIGN_OR_RETURN(stream_, store.Attach(session, AssignmentOf(), log_.started_us));
  return store.AddDelivery(stream_.run, options_.kind);
}

absl::Status LogImport::Prepare(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(const auto shapes, reader.Shapes(stream_.id));
  rows_ = std::make_unique<HistoryRows>(stream_.durable_seq, shapes, log_.started_us);
  last_item_ = stream_.durable_item;
  return absl::OkStatus();
}

absl::StatusOr<bool> LogImport::Read(size_t bytes) {
  if (findings_.torn) findings_.damage.clear();
  findings_.torn = false;
  const uint64_t from = reader_->offset();
  Record record;
  while (findings_.damage.empty() && reader_->offset() < from + bytes) {
    begin_ = reader_->offset();
    const absl::StatusOr<absl::optional<std::string>> next = reader_->Next();
    if (absl::IsDataLoss(next.status())) {
      findings_.torn = reader_->torn();
      findings_.damage = std::string(next.status().message());
      break;
    }
    RETURN_IF_ERROR(next.status());
    if (!next->has_value()) break;
    if (!record.ParseFromString(**next)) {
      LeaveOut("unreadable");
      continue;
    }
    Take(record);
  }
  if (reader_->offset() == from) return false;
  findings_.not_json = rows_->not_json();
  if (!IsStored()) AddChanges();
  return true;
}

// Of records that the store has, only what later ones refer to is read.
void LogImport::Take(const Record& record) {
  switch (record.record_type_case()) {
    case Record::kRun:
      return TakeRun(record.run());
    case Record::kConfig:
      return config_.Apply(record.config());
    case Record::kSummary:
      return summary_.Apply(record.summary());
    case Record::kHistory:
      if (!IsStored()) rows_->Add(record.history());
      return;
    case Record::kExit:
      findings_.has_exit = true;
      findings_.exit_code = record.exit().exit_code();
      return;
    case Record::kHeader:
    case Record::kFooter:
    case Record::kFinal:
    case Record::kTelemetry:
      return;
    default:
      return LeaveOut(TypeOf(record));
  }
}

void LogImport::TakeRun(const wandb_internal::RunRecord& run) {
  config_.Apply(run.config());
  summary_.Apply(run.summary());
  if (!run.display_name().empty()) run_.set_display_name(run.display_name());
  if (!run.notes().empty()) run_.set_notes(run.notes());
  if (!run.tags().empty()) *run_.mutable_tags() = run.tags();
  run_changed_ = true;
}

void LogImport::FillTo(uint64_t end) {
  if (end <= last_item_) return;
  items_.push_back({.seq = end,
                    .count = end - last_item_,
                    .time_us = rows_->last_us(),
                    .after_row = rows_->rows(),
                    .kind = Item::Kind::kConsole});
  last_item_ = end;
}

// A record is longer than the number of items that it makes.
void LogImport::AddItem(Item item) {
  FillTo(begin_);
  item.seq = ++last_item_;
  item.time_us = rows_->last_us();
  item.after_row = rows_->rows();
  items_.push_back(std::move(item));
}

// The config and the summary as they are now, where they have changed.
void LogImport::AddChanges() {
  Json config = config_.TakeChanged();
  config.erase("_wandb");
  Json summary = summary_.TakeChanged();
  const uint64_t items = (config.empty() ? 0 : 1) + (summary.empty() ? 0 : 1);
  begin_ = reader_->offset() - items;
  FillTo(begin_);
  if (!config.empty()) AddItem({.kind = Item::Kind::kConfig, .object = std::move(config)});
  if (!summary.empty()) AddItem({.kind = Item::Kind::kSummary, .object = std::move(summary)});
}

absl::Status LogImport::Apply(storage::Store& store) {
  if (run_changed_) {
    RETURN_IF_ERROR(store.Attach(SessionOf(), AssignmentOf(), log_.started_us).status());
    RETURN_IF_ERROR(store.Rename(stream_.run, run_.display_name()));
  }
  for (const auto& [id, keys] : rows_->shapes()) {
    RETURN_IF_ERROR(store.DefineShape(stream_.id, id, keys));
  }
  for (const model::Batch& batch : rows_->batches()) {
    RETURN_IF_ERROR(store.Append(stream_.id, batch).status());
  }
  return store.AppendItems(stream_.id, items_).status();
}

void LogImport::Clear() {
  rows_->Clear();
  items_.clear();
  run_changed_ = false;
}

absl::Status LogImport::End(storage::Store& store) {
  const int64_t ended_us = std::max(rows_->last_us(), log_.started_us);
  if (findings_.has_exit) {
    return store.EndStream(stream_.id, model::StreamState::kFinished, findings_.exit_code, "",
                           ended_us);
  }
  const std::string reason =
      findings_.damage.empty() ? kNoExit : absl::StrCat(kNoExit, "; ", ToUtf8(findings_.damage));
  return store.EndStream(stream_.id, model::StreamState::kCrashed, 1, reason, ended_us);
}

}  // namespace ranklog::imports
