// Imports a `.wandb` log into a store, as if one rank had logged it.

#ifndef SERVICE_IMPORT_LOG_IMPORT_H_
#define SERVICE_IMPORT_LOG_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "service/import/history_rows.h"
#include "service/import/record_object.h"
#include "service/import/run_logs.h"
#include "service/model/run.h"
#include "service/model/session.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "service/wandb_log/log_file.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {

// The log is a stream of the store, which the log's id names. The numbers of its items are places in
// the log: its last item ends where the store has the log up to. So an import that was interrupted,
// or whose log has grown, continues there; nothing is stored twice.
//
// The calls, in their order; each that takes a store is one transaction:
//   CheckOrder, Begin, Prepare, then Read, Apply and Clear until Read returns false, End
//
// Not thread-safe.
class LogImport {
 public:
  struct Options {
    Target target;
    std::string kind;                                   // of the destination
    model::DestinationSettings destination_settings{};  // of the run
  };
  // What the log has beside the data.
  struct Findings {
    bool has_exit = false;
    int32_t exit_code = 0;
    std::string damage;  // why the rest cannot be read; empty: it was read to its end
    bool torn = false;   // the log ends within a record, so its program may complete it
    std::map<std::string, uint64_t> left_out;  // records of other types, by type
    uint64_t not_json = 0;                     // values
  };

  // The errors are those of wandb_log::LogReader::Open().
  static absl::StatusOr<std::unique_ptr<LogImport>> Open(const RunLog& log, const Options& options);

  // kFailedPrecondition: the store has a later part of the run, but not this one. A tracker takes
  // rows only in their order.
  absl::Status CheckOrder(storage::StoreReader& reader) const;
  // Joins the store.
  absl::Status Begin(storage::Store& store);
  // The store has the whole log, so there is nothing to do. Call it after Begin(), as the next ones.
  bool IsImported() const { return stream_.state == model::StreamState::kFinished; }
  // Reads what the store has of the log. Call it after the commit of Begin().
  absl::Status Prepare(storage::StoreReader& reader);

  // Reads about `bytes` more of the log. False: there is nothing new. Damage is a finding, after
  // which nothing more is read.
  //   kUnavailable  the file system
  absl::StatusOr<bool> Read(size_t bytes);
  // Writes what was read, within a transaction. It may be repeated after a rollback.
  absl::Status Apply(storage::Store& store);
  // Forgets what was read, after the commit.
  void Clear();
  // Ends the stream, within a transaction: finished, or crashed if the log has no exit.
  absl::Status End(storage::Store& store);

  const Findings& findings() const { return findings_; }
  int64_t run() const { return stream_.run; }  // the store's id; known after Begin()
  uint64_t offset() const { return reader_->offset(); }
  uint64_t rows() const { return rows_ == nullptr ? 0 : rows_->rows(); }

 private:
  LogImport(RunLog log, Options options, std::unique_ptr<wandb_log::LogReader> reader);

  model::Session SessionOf() const;
  model::RunAssignment AssignmentOf() const;
  void Take(const wandb_internal::Record& record);
  void TakeRun(const wandb_internal::RunRecord& run);
  // Adds an item that was logged now.
  void AddItem(model::Item item);
  // Items count up to the log's place `end`.
  void FillTo(uint64_t end);
  void AddChanges();
  void LeaveOut(const std::string& type) { ++findings_.left_out[type]; }
  // Of the record that is taken; or where it begins.
  bool IsStored() const { return reader_->offset() <= stream_.durable_item; }

  const RunLog log_;
  const Options options_;
  const std::unique_ptr<wandb_log::LogReader> reader_;
  wandb_internal::RunRecord run_;  // with later changes
  model::Stream stream_;
  std::unique_ptr<HistoryRows> rows_;
  RecordObject config_{/*merges=*/true};
  RecordObject summary_{/*merges=*/false};
  Findings findings_;

  // What was read since Clear().
  std::vector<model::Item> items_;
  uint64_t last_item_ = 0;  // the place of the last one
  uint64_t begin_ = 0;      // where the record that is taken begins
  bool run_changed_ = false;
};

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_LOG_IMPORT_H_
