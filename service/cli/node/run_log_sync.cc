#include "service/cli/node/run_log_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/base/unique_fd.h"
#include "service/storage/database/store_file.h"
#include "service/storage/staged_files.h"

namespace ranklog::cli {
namespace {

constexpr size_t kPartBytes = 4 << 20;  // of a log, in one transaction
constexpr size_t kIdInName = 64;

// Readable, and different for different runs: "gpt-abc123-1f00a7c2e4b9d310".
std::string StateNameOf(const RunLogSync::Options& options) {
  const imports::Target& target = options.target;
  std::string whole = absl::StrCat(target.entity, "\n", target.project, "\n", target.run_id);
  for (const auto& [kind, settings] : options.destination_settings) {
    const deliver::Destination* const destination = deliver::FindDestination(kind);
    if (destination == nullptr) continue;
    const auto url = settings.find(destination->words().url_setting);
    if (url != settings.end()) absl::StrAppend(&whole, "\n", kind, " ", url->second);
  }
  std::string name = target.run_id.substr(0, kIdInName);
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  return absl::StrCat("run-", name, "-", absl::Hex(imports::StableHash(whole), absl::kZeroPad16));
}

bool IsComplete(const query::RunReport& report, const std::string& kind) {
  for (const query::DestinationReport& destination : report.destinations) {
    if (destination.kind == kind) return destination.complete;
  }
  return false;
}

}  // namespace

RunLogSync::RunLogSync(const std::string& root, std::vector<imports::RunLog> logs, Options options)
    : logs_(std::move(logs)),
      options_(std::move(options)),
      state_dir_(absl::StrCat(root, "/", StateNameOf(options_))) {}

uint64_t RunLogSync::bytes() const {
  uint64_t bytes = 0;
  for (const imports::RunLog& log : logs_) bytes += log.bytes;
  return bytes;
}

bool RunLogSync::IsKnown() const {
  return access(absl::StrCat(state_dir_, "/", storage::kStoreFile).c_str(), F_OK) == 0;
}

absl::Status RunLogSync::Start(const std::function<bool(uint64_t)>& on_progress) {
  absl::StatusOr<storage::StateLock> lock = storage::StateLock::Acquire(state_dir_);
  if (absl::IsAlreadyExists(lock.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("process ", storage::StateLock::Holder(state_dir_), " syncs this run now"));
  }
  RETURN_IF_ERROR(lock.status());
  lock_ = std::make_unique<storage::StateLock>(*std::move(lock));
  ASSIGN_OR_RETURN(pipeline_, SyncPipeline::Open(state_dir_, options_.credentials_dir));
  ASSIGN_OR_RETURN(reader_, storage::StoreReader::Open(state_dir_));
  uint64_t done = 0;
  const auto progress = [&](uint64_t bytes) { return on_progress(done + bytes); };
  for (size_t i = 0; i + 1 < logs_.size(); ++i) {
    RETURN_IF_ERROR(BeginPart(logs_[i]));
    RETURN_IF_ERROR(ReadPart(parts_.back(), progress));
    if (!parts_.back().ended) RETURN_IF_ERROR(EndPart(parts_.back()));
    done += logs_[i].bytes;
  }
  // The last part is delivered while it is read.
  RETURN_IF_ERROR(BeginPart(logs_.back()));
  Part& last = parts_.back();
  RETURN_IF_ERROR(ReadMore(last).status());
  RETURN_IF_ERROR(ReadReport());
  moved_at_ = SteadyNow();
  if (last.ended && IsComplete(report_, options_.kind) &&
      !query::IsOpen(report_, report_.destinations.front())) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(pipeline_->CheckCredentials(report_.run, options_.kind));
  RETURN_IF_ERROR(pipeline_->TryAgain(run_, options_.kind));
  RETURN_IF_ERROR(pipeline_->Start({run_}, /*waits_for_space=*/false));
  RETURN_IF_ERROR(ReadPart(last, progress));
  if (!last.ended && !(options_.live && !last.import->findings().has_exit)) {
    RETURN_IF_ERROR(EndPart(last));
  }
  moved_at_ = SteadyNow();
  return ReadReport();
}

absl::Status RunLogSync::BeginPart(const imports::RunLog& log) {
  Part& part = parts_.emplace_back();
  ASSIGN_OR_RETURN(part.import, imports::LogImport::Open(
                                    log, {.target = options_.target,
                                          .state_dir = state_dir_,
                                          .kind = options_.kind,
                                          .destination_settings = options_.destination_settings}));
  imports::LogImport& import = *part.import;
  RETURN_IF_ERROR(import.CheckOrder(*reader_));
  RETURN_IF_ERROR(
      pipeline_->Write(run_, [&](storage::Store& store) { return import.Begin(store); }));
  run_ = import.run();
  part.ended = import.IsImported();
  ASSIGN_OR_RETURN(const int64_t last_step, LastStepBefore(log, import));
  return import.Prepare(*reader_, last_step);
}

absl::StatusOr<int64_t> RunLogSync::LastStepBefore(const imports::RunLog& log,
                                                   const imports::LogImport& import) const {
  if (!log.run.resume() || import.rows() > 0) return -1;
  ASSIGN_OR_RETURN(const std::vector<model::Stream> parts, reader_->Streams(run_));
  if (parts.size() > 1) return -1;  // the store has the earlier ones
  const bool own_place = imports::TargetOf(log, {}) == options_.target;
  if (const absl::optional<int64_t> known = log.StartingStep(); known && own_place) {
    return *known - 1;
  }
  ASSIGN_OR_RETURN(const model::Run run, reader_->GetRun(run_));
  ASSIGN_OR_RETURN(const int64_t last, pipeline_->LastStep(run, options_.kind, options_.timeout));
  if (own_place) log.KeepStartingStep(last + 1);
  return last;
}

absl::StatusOr<bool> RunLogSync::ReadMore(Part& part) {
  if (part.ended) return false;
  imports::LogImport& import = *part.import;
  ASSIGN_OR_RETURN(const bool any, import.Read(kPartBytes));
  if (!any) return false;
  RETURN_IF_ERROR(
      pipeline_->Write(run_, [&](storage::Store& store) { return import.Apply(store); }));
  import.Clear();
  return true;
}

absl::Status RunLogSync::ReadPart(Part& part, const std::function<bool(uint64_t)>& on_progress) {
  while (true) {
    ASSIGN_OR_RETURN(const bool any, ReadMore(part));
    if (!any) return absl::OkStatus();
    if (!on_progress(part.import->offset())) return absl::CancelledError("interrupted");
  }
}

absl::Status RunLogSync::EndPart(Part& part) {
  part.ended = true;
  return pipeline_->Write(run_, [&](storage::Store& store) { return part.import->End(store); });
}

absl::StatusOr<bool> RunLogSync::Poll() {
  Part& last = parts_.back();
  if (!last.ended) {
    RETURN_IF_ERROR(ReadPart(last, [](uint64_t) { return true; }));
    if (last.import->findings().has_exit) RETURN_IF_ERROR(EndPart(last));
  }
  RETURN_IF_ERROR(ReadReport());
  std::vector<uint64_t> figures = {last.import->offset(), report_.run.rows};
  bool open = !last.ended || report_.run.state == model::RunState::kRunning;
  for (const query::DestinationReport& destination : report_.destinations) {
    open |= query::IsOpen(report_, destination) && !destination.set_apart;
    figures.insert(figures.end(),
                   {destination.delivered_rows, destination.refused_rows, destination.pending_items,
                    destination.pending_file_bytes, uint64_t{destination.complete}});
  }
  if (!open) return true;
  if (figures != moved_ || !last.ended) {
    moved_ = std::move(figures);
    moved_at_ = SteadyNow();
  }
  return SteadyNow() - moved_at_ > options_.timeout;
}

absl::Status RunLogSync::ReadReport() {
  ASSIGN_OR_RETURN(const model::Run run, reader_->GetRun(run_));
  ASSIGN_OR_RETURN(report_, query::ReportRun(*reader_, run));
  return absl::OkStatus();
}

double RunLogSync::Progress() const {
  if (!HasReport() || report_.run.rows == 0) return 0;
  uint64_t done = 0;
  uint64_t total = 0;
  for (const query::DestinationReport& destination : report_.destinations) {
    done += report_.run.rows - destination.pending_rows;
    total += report_.run.rows;
  }
  return total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
}

bool RunLogSync::AllArrived() const {
  for (const query::DestinationReport& destination : report_.destinations) {
    if (!destination.complete || destination.refused_rows > 0) return false;
    if (query::IsOpen(report_, destination)) return false;
  }
  return !report_.destinations.empty() && report_.run.state != model::RunState::kRunning;
}

absl::Status RunLogSync::End(std::vector<std::string>* notes) {
  pipeline_.reset();
  if (reader_ != nullptr && run_ != 0) {
    RETURN_IF_ERROR(ReadReport());
    // Otherwise the files wait for a sync that never comes.
    storage::RemoveUnneededFiles(storage::ContentDirOf(state_dir_), *reader_, absl::Now())
        .IgnoreError();  // they only take space
  }
  lock_.reset();
  const bool arrived = HasReport() && AllArrived();
  bool incomplete = false;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const imports::LogImport::Findings& findings = parts_[i].import->findings();
    for (const auto& [type, count] : findings.left_out) {
      notes->push_back(absl::StrCat(Counted(count, "record"), " of ", type, " left out"));
    }
    notes->insert(notes->end(), findings.absent.begin(), findings.absent.end());
    incomplete |= !findings.absent.empty();
    if (findings.not_json > 0) {
      notes->push_back(absl::StrCat(Counted(findings.not_json, "value"), " left out: not JSON"));
    }
    if (!findings.damage.empty()) {
      notes->push_back(absl::StrCat(findings.damage, "; what comes before was taken"));
      incomplete = true;
    } else if (arrived) {
      Mark(logs_[i], notes);
    }
  }
  if (const uint64_t replayed = report_.run.replayed_rows; replayed > 0) {
    notes->push_back(absl::StrCat(Counted(replayed, "row"),
                                  " left out: an earlier part of the run has rows of these steps"));
  }
  for (const query::DestinationReport& to : report_.destinations) {
    if (to.replayed_rows == 0) continue;
    notes->push_back(absl::StrCat(Counted(to.replayed_rows, "row"),
                                  " not sent: the server had rows of these steps before"));
  }
  if (!arrived) return absl::UnavailableError("not everything has arrived; run it again to go on");
  if (incomplete) return absl::DataLossError("a part of the run could not be read, see above");
  return absl::OkStatus();
}

// As the official client does.
void RunLogSync::Mark(const imports::RunLog& log, std::vector<std::string>* notes) const {
  const UniqueFd marker(open(log.marker().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!marker.valid()) {
    notes->push_back(absl::StrCat("cannot create ", Printable(log.marker()), ": ", strerror(errno),
                                  "; the next sync looks at it again"));
  }
}

}  // namespace ranklog::cli
