// Imports a `.wandb` log into a store, as if one rank had logged it.

#ifndef SERVICE_IMPORT_LOG_IMPORT_H_
#define SERVICE_IMPORT_LOG_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/import/records/history_rows.h"
#include "service/import/records/record_object.h"
#include "service/import/records/record_values.h"
#include "service/import/run_logs.h"
#include "service/model/line_editor.h"
#include "service/model/run.h"
#include "service/model/sample.h"
#include "service/model/session.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "service/wandb_log/log_file.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {

// The log is a stream of the store, which the log's id names. The numbers of its items are places in
// the log, kPlaces for each byte: its last item ends where the store has the log up to. So an import
// that was interrupted, or whose log has grown, continues there; nothing is stored twice.
//
// The calls, in their order; each that takes a store is one transaction:
//   CheckOrder, Begin, Prepare, then Read, Apply and Clear until Read returns false, End
//
// Not thread-safe.
class LogImport {
 public:
  static constexpr uint64_t kPlaces = 64;  // an exit may have hundreds of files

  struct Options {
    Target target;
    std::string state_dir;                              // of the store
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
    std::vector<std::string> absent;  // files and artifacts that could not be taken, and why
    uint64_t not_json = 0;            // values
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
  // Reads what the store has of the log. Call it after the commit of Begin(). `last_step`: where
  // parts that are not in the store have brought the run; -1: nowhere.
  absl::Status Prepare(storage::StoreReader& reader, int64_t last_step = -1);

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
  uint64_t rows() const { return stream_.durable_seq; }  // that the store had at Begin()
  int64_t run() const { return stream_.run; }            // the store's id; known after Begin()
  uint64_t offset() const { return reader_->offset(); }

 private:
  LogImport(RunLog log, Options options, std::unique_ptr<wandb_log::LogReader> reader);

  model::Session SessionOf() const;
  model::RunAssignment AssignmentOf() const;
  // The rows come behind those of the earlier parts. Defined in log_order.cc, as CheckOrder().
  absl::Status FollowEarlierParts(storage::StoreReader& reader, int64_t last_step);
  // False: it is damaged.
  bool TakeValues(const ValueRecord& record, bool stored);
  void Take(const wandb_internal::Record& record);
  // Records of which a later part of the log needs something, also if the store has them.
  void TakeAlways(const wandb_internal::Record& record);
  void TakeRun(const wandb_internal::RunRecord& run);
  void Print(bool error, absl::string_view text, int64_t time_us);
  // Adds an item that was logged now.
  void AddItem(model::Item item);
  void AddSingle(model::Item::Kind kind, model::Json object) {
    AddItem({.kind = kind, .object = std::move(object)});
  }
  // Items count up to `place`.
  void FillTo(uint64_t place);
  void AddChanges();
  // The changes are in the store.
  void ForgetChanges();
  void LeaveOut(const std::string& type) { ++findings_.left_out[type]; }
  // Whether the store has the record that was read last.
  bool IsStored() const { return reader_->offset() * kPlaces <= stream_.durable_item; }

  // Defined in log_uploads.cc.
  struct RunFile {
    bool at_end = false;  // its program may change it until then
    int64_t stamp = 0;    // of the content that was staged
  };
  void NoteFiles(const wandb_internal::FilesRecord& files);
  void TakeFiles(const wandb_internal::FilesRecord& files);
  void TakeArtifact(const wandb_internal::ArtifactRecord& artifact);
  void AddFile(const std::string& path, RunFile* file);
  // Those that may have changed since they were staged.
  void AddFilesAtEnd();
  // Of a staged file; the same for each import of the record.
  std::string NextId();

  const RunLog log_;
  const Options options_;
  const std::unique_ptr<wandb_log::LogReader> reader_;
  wandb_internal::RunRecord run_;  // with later changes
  model::Stream stream_;
  std::unique_ptr<HistoryRows> rows_;
  RecordValues values_;
  RecordObject config_{/*merges=*/true};
  RecordObject summary_{/*merges=*/false};
  model::Json metadata_ = model::Json::object();
  uint64_t next_line_ = 0;
  model::LineEditor out_{false, &next_line_};
  model::LineEditor err_{true, &next_line_};
  std::map<std::string, RunFile> files_;  // by path
  int64_t last_us_ = 0;                   // the latest time of a row, a sample or a line
  Findings findings_;

  // What was read since Clear().
  std::vector<model::Item> items_;
  std::vector<model::Sample> samples_;
  uint64_t last_item_ = 0;  // the place of the last one
  uint64_t begin_ = 0;      // the place where the record that is taken begins
  bool was_stored_ = true;  // the store has the record before it
  int staged_ = 0;          // files of this record
  bool run_changed_ = false;
  bool metadata_changed_ = false;
};

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_LOG_IMPORT_H_
