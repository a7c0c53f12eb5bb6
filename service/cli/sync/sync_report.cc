#include "service/cli/sync/sync_report.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/storage/directories/state_lock.h"

namespace ranklog::cli {
namespace {

std::string FullName(const model::Run& run) { return Printable(run.project + ":" + run.run_id); }

}  // namespace

bool IsTracker(const query::DestinationReport& destination) {
  return destination.kind != query::kLocal;
}

SyncProgress ProgressOf(const std::vector<query::RunReport>& reports) {
  SyncProgress sum;
  for (const query::RunReport& report : reports) {
    if (report.run.state == model::RunState::kRunning) ++sum.going;
    for (const query::DestinationReport& destination : report.destinations) {
      if (!IsTracker(destination)) continue;
      sum.done += report.run.rows - destination.pending_rows;
      sum.total += report.run.rows;
      sum.files += destination.pending_files;
      sum.file_bytes += destination.pending_file_bytes;
      if (IsOpen(report, destination) && !destination.set_apart) ++sum.open;
    }
  }
  return sum;
}

void UploadProgress::Show(const SyncProgress& sync, ProgressBar* progress) {
  files_ = std::max(files_, sync.files);
  bytes_ = std::max(bytes_, sync.file_bytes);
  // Once all rows are delivered, the ends of runs remain.
  const uint64_t rows = sync.done < sync.total ? sync.total : sync.total + sync.open;
  if (files_ == 0) return progress->Update(sync.done, rows);
  const uint64_t sent = bytes_ - sync.file_bytes;
  const std::string figures = absl::StrCat(
      sync.done, "/", rows, " rows, ", files_ - sync.files, "/", files_, " files, ",
      BytesText(static_cast<int64_t>(sent)), " of ", BytesText(static_cast<int64_t>(bytes_)));
  // The part that is further behind.
  const bool files_behind = static_cast<double>(sent) * static_cast<double>(rows) <
                            static_cast<double>(sync.done) * static_cast<double>(bytes_);
  if (files_behind) return progress->Update(sent, bytes_, figures);
  progress->Update(sync.done, rows, figures);
}

void SyncReport::IgnoreOldErrors(const std::vector<query::RunReport>& reports) {
  for (const query::RunReport& report : reports) {
    for (const query::DestinationReport& destination : report.destinations) {
      errors_[{report.run.id, destination.kind}] = destination.last_error;
    }
  }
}

void SyncReport::PrintErrors(const std::vector<query::RunReport>& reports, ProgressBar* progress) {
  for (const query::RunReport& report : reports) {
    for (const query::DestinationReport& destination : report.destinations) {
      std::string& printed = errors_[{report.run.id, destination.kind}];
      if (printed == destination.last_error) continue;
      printed = destination.last_error;
      if (printed.empty()) continue;
      progress->Clear();
      std::cerr << FullName(report.run) << "  " << destination.kind << "  "
                << Printable(query::ErrorText(report, destination)) << "\n";
    }
  }
}

void SyncReport::PrintStoreError(const std::string& error, ProgressBar* progress) {
  if (error.empty() == store_error_.empty()) return;
  store_error_ = error;
  progress->Clear();
  if (error.empty()) {
    std::cerr << "the store is writable again\n";
  } else {
    std::cerr << "cannot write the store, retrying: " << Printable(error) << "\n";
  }
}

absl::Status SyncReport::Conclude(const std::vector<query::RunReport>& reports) const {
  uint64_t unfinished = 0;
  for (const query::RunReport& report : reports) {
    for (const query::DestinationReport& destination : report.destinations) {
      if (!IsTracker(destination)) continue;
      const std::string left = WhatIsLeft(report, destination);
      std::cout << FullName(report.run) << "  " << destination.kind << "  "
                << destination.delivered_rows << " of " << report.run.rows << " rows delivered"
                << ReplayedText(destination) << left << "\n";
      if (!left.empty()) ++unfinished;
    }
  }
  if (unfinished == 0) return absl::OkStatus();
  if (!store_error_.empty()) {
    return absl::UnavailableError(
        absl::StrCat("cannot write the store: ", Printable(store_error_),
                     "\nundelivered rows stay in the store; the next sync continues"));
  }
  return absl::UnavailableError(
      "not all rows are delivered; undelivered rows stay in the store; the next sync continues");
}

std::string SyncReport::WhatIsLeft(const query::RunReport& report,
                                   const query::DestinationReport& destination) const {
  std::string left;
  if (destination.refused_rows > 0) {
    absl::StrAppend(&left, ", ", destination.refused_rows, " refused (see `",
                    globals_.Command("dead " + FullName(report.run)), "`)");
  }
  if (IsOpen(report, destination)) {
    std::string open;
    if (destination.pending_rows > 0) open = absl::StrCat(", ", destination.pending_rows, " left");
    if (destination.pending_files > 0) {
      absl::StrAppend(&open, ", ", query::UploadsText(destination), " to upload");
    }
    absl::StrAppend(&left, open.empty() ? ", the run's end is not delivered" : open);
    if (!destination.last_error.empty()) {
      absl::StrAppend(&left, ": ", Printable(query::ErrorText(report, destination)));
    }
  } else if (report.run.state == model::RunState::kRunning &&
             storage::StateLock::Holder(state_dir_) == 0) {
    absl::StrAppend(&left,
                    ", but the run has not ended; start ranklogd, which reads the spools of its "
                    "ranks and ends it");
  }
  return left;
}

}  // namespace ranklog::cli
