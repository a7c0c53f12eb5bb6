#include "service/import/log_import.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "service/base/status_macros.h"
#include "service/base/text/utf8.h"
#include "service/import/records/record_items.h"

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

absl::Status LogImport::Begin(storage::Store& store) {
  const model::Session session = SessionOf();
  RETURN_IF_ERROR(model::Validate(session));
  ASSIGN_OR_RETURN(stream_, store.Attach(session, AssignmentOf(), log_.started_us));
  return store.AddDelivery(stream_.run, options_.kind);
}

absl::Status LogImport::Prepare(storage::StoreReader& reader, int64_t last_step) {
  ASSIGN_OR_RETURN(const auto shapes, reader.Shapes(stream_.id));
  rows_ = std::make_unique<HistoryRows>(stream_.durable_seq, shapes, log_.started_us);
  last_item_ = stream_.durable_item;
  last_us_ = log_.started_us;
  return FollowEarlierParts(reader, last_step);
}

absl::StatusOr<bool> LogImport::Read(size_t bytes) {
  if (findings_.torn) findings_.damage.clear();
  findings_.torn = false;
  const uint64_t from = reader_->offset();
  Record record;
  while (findings_.damage.empty() && reader_->offset() < from + bytes) {
    const uint64_t begin = reader_->offset() * kPlaces;
    const absl::StatusOr<absl::optional<std::string>> next = reader_->Next();
    if (absl::IsDataLoss(next.status())) {
      findings_.torn = reader_->torn();
      findings_.damage = std::string(next.status().message());
      break;
    }
    RETURN_IF_ERROR(next.status());
    if (!next->has_value()) break;
    begin_ = begin;
    staged_ = 0;
    const bool stored = IsStored();
    if (std::exchange(was_stored_, stored) && !stored) ForgetChanges();
    if (const ValueRecord with_values = FindValueRecord(**next); with_values.field != 0) {
      if (!TakeValues(with_values, stored)) LeaveOut("unreadable");
    } else if (record.ParseFromString(**next)) {
      TakeAlways(record);
      if (!stored) Take(record);
    } else {
      LeaveOut("unreadable");
    }
  }
  if (reader_->offset() == from) return false;
  findings_.not_json = rows_->not_json();
  if (!IsStored()) AddChanges();
  return true;
}

bool LogImport::TakeValues(const ValueRecord& record, bool stored) {
  if (record.field == Record::kHistoryFieldNumber) {
    if (stored) return true;
    if (!values_.ReadHistory(record.content)) return false;
    rows_->Add(values_);
    last_us_ = std::max(last_us_, rows_->last_us());
    return true;
  }
  if (!values_.ReadUpdates(record.content)) return false;
  (record.field == Record::kConfigFieldNumber ? config_ : summary_).Apply(values_);
  return true;
}

void LogImport::TakeAlways(const Record& record) {
  switch (record.record_type_case()) {
    case Record::kRun:
      return TakeRun(record.run());
    case Record::kEnvironment:
      metadata_.update(ToMetadata(record.environment()));
      metadata_changed_ = true;
      return;
    case Record::kOutputRaw:
      return Print(record.output_raw().output_type() == wandb_internal::OutputRawRecord::STDERR,
                   record.output_raw().line(), TimeOf(record.output_raw()));
    case Record::kOutputLogger:
      return Print(/*error=*/false, record.output_logger().line() + "\n", /*time_us=*/0);
    case Record::kFiles:
      return NoteFiles(record.files());
    case Record::kExit:
      findings_.has_exit = true;
      findings_.exit_code = record.exit().exit_code();
      return;
    default:
      return;
  }
}

void LogImport::Take(const Record& record) {
  switch (record.record_type_case()) {
    case Record::kStats:
      samples_.push_back(ToSample(record.stats()));
      last_us_ = std::max(last_us_, samples_.back().time_us);
      if (samples_.back().values.empty()) samples_.pop_back();
      return;
    case Record::kMetric:
      return AddItem({.kind = Item::Kind::kMetric, .metric = ToDefinition(record.metric())});
    case Record::kAlert:
      return AddSingle(Item::Kind::kAlert, ToAlert(record.alert()));
    case Record::kPreempting:
      return AddSingle(Item::Kind::kPreempting, Json::object());
    case Record::kFiles:
      return TakeFiles(record.files());
    case Record::kArtifact:
      return TakeArtifact(record.artifact());
    case Record::kExit:
      return AddFilesAtEnd();
    case Record::kRun:
    case Record::kEnvironment:
    case Record::kOutputRaw:
    case Record::kOutputLogger:
    case Record::kHeader:
    case Record::kFooter:
    case Record::kFinal:
    case Record::kTelemetry:
    case Record::kTbrecord:
    case Record::kUseArtifact:
      return;
    default:
      return LeaveOut(TypeOf(record));
  }
}

void LogImport::Print(bool error, absl::string_view text, int64_t time_us) {
  if (time_us > 0) last_us_ = std::max(last_us_, time_us);
  (error ? err_ : out_).Write(text, time_us > 0 ? time_us : std::max(last_us_, log_.started_us));
}

void LogImport::TakeRun(const wandb_internal::RunRecord& run) {
  const std::string config = run.config().SerializeAsString();
  if (values_.ReadUpdates(config)) config_.Apply(values_);
  const std::string summary = run.summary().SerializeAsString();
  if (values_.ReadUpdates(summary)) summary_.Apply(values_);
  if (run.has_branch_point() && run.branch_point().run() == run.run_id()) {
    findings_.absent.push_back(absl::StrCat("its rewind to step ", run.branch_point().value(),
                                            ": a tracker keeps the rows that it has"));
  }
  if (!run.display_name().empty()) run_.set_display_name(run.display_name());
  if (!run.notes().empty()) run_.set_notes(run.notes());
  if (!run.tags().empty()) *run_.mutable_tags() = run.tags();
  run_changed_ = true;
}

void LogImport::FillTo(uint64_t place) {
  if (place <= last_item_) return;
  items_.push_back({.seq = place,
                    .count = place - last_item_,
                    .time_us = last_us_,
                    .after_row = rows_->rows(),
                    .kind = Item::Kind::kConsole});
  last_item_ = place;
}

// A record has more places than items.
void LogImport::AddItem(Item item) {
  FillTo(begin_);
  item.seq = ++last_item_;
  item.time_us = last_us_;
  item.after_row = rows_->rows();
  items_.push_back(std::move(item));
}

void LogImport::ForgetChanges() {
  config_.TakeChanged();
  summary_.TakeChanged();
  out_.TakeChanged();
  err_.TakeChanged();
  metadata_changed_ = false;
}

// The config and so on as they are now, where they have changed.
void LogImport::AddChanges() {
  Json config = config_.TakeChanged();
  config.erase("_wandb");
  if (!config.empty()) AddSingle(Item::Kind::kConfig, std::move(config));
  Json summary = summary_.TakeChanged();
  if (!summary.empty()) AddSingle(Item::Kind::kSummary, std::move(summary));
  if (std::exchange(metadata_changed_, false)) AddSingle(Item::Kind::kMetadata, metadata_);
  Item console{.kind = Item::Kind::kConsole};
  for (model::LineEditor* const editor : {&out_, &err_}) {
    for (model::ConsoleLine& line : editor->TakeChanged()) {
      console.console.push_back(std::move(line));
    }
  }
  std::sort(console.console.begin(), console.console.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  if (!console.console.empty()) AddItem(std::move(console));
  FillTo(reader_->offset() * kPlaces);
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
  for (const model::Sample& sample : samples_) {
    RETURN_IF_ERROR(store.AppendSample(stream_.run, sample));
  }
  return store.AppendItems(stream_.id, items_).status();
}

void LogImport::Clear() {
  rows_->Clear();
  items_.clear();
  samples_.clear();
  run_changed_ = false;
}

absl::Status LogImport::End(storage::Store& store) {
  const int64_t ended_us = std::max(last_us_, log_.started_us);
  if (findings_.has_exit) {
    return store.EndStream(stream_.id, model::StreamState::kFinished, findings_.exit_code, "",
                           ended_us);
  }
  const std::string reason =
      findings_.damage.empty() ? kNoExit : absl::StrCat(kNoExit, "; ", ToUtf8(findings_.damage));
  return store.EndStream(stream_.id, model::StreamState::kCrashed, 1, reason, ended_us);
}

}  // namespace ranklog::imports
