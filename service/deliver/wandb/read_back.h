// Reads a run back from a W&B server and compares it with the store.

#ifndef SERVICE_DELIVER_WANDB_READ_BACK_H_
#define SERVICE_DELIVER_WANDB_READ_BACK_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/deliver/retry.h"
#include "service/deliver/transport.h"
#include "service/deliver/wandb/document_diff.h"
#include "service/deliver/wandb/history_diff.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::deliver::wandb {

struct ReadBackOptions {
  absl::Duration timeout = absl::Seconds(30);  // time limit for the retries of a page
  uint64_t page_rows = 1000;                   // same page size as the official client
  size_t page_bytes = 1 << 20;                 // of expected lines; limits the memory
  Backoff::Options backoff;
  std::function<absl::Time()> now;                              // a steady clock
  std::function<void(absl::Duration)> sleep;                    // waits between two tries
  std::function<void(uint64_t done, uint64_t total)> progress;  // counts rows
};

struct ReadBackReport {
  // Rows that the server has acknowledged; refused rows count with their bare lines. Replays are
  // not sent.
  uint64_t sent = 0;
  HistoryDiff diff;  // `missing` excludes rows that were not checked
  // Rows that the server counts but does not return: old rows lie in files that this does not read.
  uint64_t not_checked = 0;
  int64_t lines = 0;       // lines of the run at the server
  int64_t base_lines = 0;  // of these, lines before ours
  bool continued = false;  // another store continues the run; lines after ours are its lines
  std::string state;       // of the run, as the server names it
  // Compared only after the run's end was delivered, because the server may be behind before that.
  DocumentDiff config;
  DocumentDiff summary;

  // All sent rows are at the server once and, if `ended`, nothing else is.
  bool ok(bool ended) const;
  int64_t expected_lines() const { return base_lines + static_cast<int64_t>(sent); }
  // If other stores feed the run too, they may have added lines since.
  bool LineCountFits(bool ended) const {
    const bool only_ours = base_lines == 0 && !continued;
    return ended && only_ours ? lines == expected_lines() : lines >= expected_lines();
  }
};

// Compares the server's lines with the lines that the store's rows make, one range of steps at a
// time. Rows with dead letters are expected without values. Then compares the config and the
// summary by key. Values that `step_sync` adds are not compared, because they depend on when a
// definition arrived.
//
// `run` and `delivery` must be as stored, and the delivery must have a cursor. Makes at most one
// request at a time.
//   kNotFound            the server has no such run
//   kUnavailable         no answer within the timeout
//   kFailedPrecondition  the server refuses us, or answers with an error
//   kDataLoss            the store lacks rows that it counts as delivered
absl::StatusOr<ReadBackReport> ReadBack(storage::StoreReader& reader, const model::Run& run,
                                        const model::Delivery& delivery, Transport& transport,
                                        const std::string& key, const ReadBackOptions& options);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_READ_BACK_H_
