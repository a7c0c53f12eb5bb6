// Reads a run back from a W&B server, and holds it against the store.

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
#include "service/storage/store.h"

namespace ranklog::deliver::wandb {

struct ReadBackOptions {
  absl::Duration timeout = absl::Seconds(30);  // a page is asked for again for so long
  uint64_t page_rows = 1000;                   // as the official client's pages
  size_t page_bytes = 1 << 20;                 // of expected lines; bounds the memory
  Backoff::Options backoff;
  std::function<absl::Time()> now;                              // of a steady clock
  std::function<void(absl::Duration)> sleep;                    // between two tries
  std::function<void(uint64_t done, uint64_t total)> progress;  // rows
};

struct ReadBackReport {
  // Rows that the server has answered for, the refused ones as bare lines. Replays are not sent.
  uint64_t sent = 0;
  HistoryDiff diff;  // `missing` without those that were not checked
  // Rows that the server counts, but does not hand out: old ones lie in files that this does not
  // read.
  uint64_t not_checked = 0;
  int64_t lines = 0;       // that the server counts for the run
  int64_t base_lines = 0;  // of them before ours
  bool continued = false;  // another store has: what is behind ours is its
  std::string state;       // of the run, as the server calls it
  // Only once the run's end was delivered: before that the server may be behind.
  DocumentDiff config;
  DocumentDiff summary;

  // All that was sent is there once, and, where `ended`, nothing else.
  bool ok(bool ended) const;
  int64_t expected_lines() const { return base_lines + static_cast<int64_t>(sent); }
  // Where other stores feed the run, too, they may have done so since.
  bool LineCountFits(bool ended) const {
    const bool only_ours = base_lines == 0 && !continued;
    return ended && only_ours ? lines == expected_lines() : lines >= expected_lines();
  }
};

// Compares the lines that the store's rows make, those of dead letters without their values, with
// what the server hands out, range of steps by range of steps; then the config and the summary, by
// key, but for what `step_sync` adds, which depends on when a definition came. `run` and `delivery`
// as stored; the delivery has a place. Makes at most one request at a time.
//   kNotFound            the server has no such run
//   kUnavailable         it did not answer within the timeout
//   kFailedPrecondition  it refuses us, or answers with an error
//   kDataLoss            the store lacks rows that it says were delivered
absl::StatusOr<ReadBackReport> ReadBack(storage::StoreReader& reader, const model::Run& run,
                                        const model::Delivery& delivery, Transport& transport,
                                        const std::string& key, const ReadBackOptions& options);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_READ_BACK_H_
