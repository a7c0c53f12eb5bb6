#include "service/storage/store.h"

#include <errno.h>
#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/file_system.h"
#include "service/storage/rows/damage.h"
#include "service/storage/rows/documents.h"
#include "service/storage/rows/records.h"

namespace ranklog::storage {
namespace {

// A longer log is shortened even though a commit must wait for it. Under constant writes, a log is
// never copied to its end, and would grow without limit.
constexpr int64_t kMaxLogBytes = 64 << 20;

// Page size 4 KiB: most batches are smaller; at 16 KiB, batches of 25 KiB waste a third of the
// file. cache_spill off: nothing is written before Commit(), so a full disk shows there.
// wal_autocheckpoint off: Checkpoint() does it, and no commit is delayed by it. secure_delete off:
// some distributions enable it, and a removal would then write every page that it frees.
constexpr char kWriterPragmas[] =
    "PRAGMA synchronous = FULL;"
    "PRAGMA mmap_size = 0;"
    "PRAGMA wal_autocheckpoint = 0;"
    "PRAGMA temp_store = MEMORY;"
    "PRAGMA cache_spill = OFF;"
    "PRAGMA secure_delete = FAST;"
    "PRAGMA journal_size_limit = 67108864";
constexpr char kCheckpointerPragmas[] =
    "PRAGMA synchronous = FULL;"
    "PRAGMA mmap_size = 0;"
    "PRAGMA busy_timeout = 100";  // shortening waits for readers, and a commit waits for it

absl::Status UseWriteAheadLog(Database& database) {
  Query mode = database.Select("PRAGMA journal_mode = WAL");
  const bool is_wal = mode.Next() && mode.Text(0) == "wal";
  RETURN_IF_ERROR(mode.status());
  if (is_wal) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(database.path(),
                   ": this file system has no shared memory for SQLite's log; "
                   "choose a directory on a disk of this node with --state-dir"));
}

// A killed writer may have written a commit to the log without syncing it, and readers see that
// commit like any other. Before we act on it, it must survive a power cut.
absl::Status SyncLog(Database& database) {
  sqlite3_file* log = nullptr;  // stays open while the database is
  RETURN_IF_ERROR(SqliteStatus(
      database.handle(),
      sqlite3_file_control(database.handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log),
      "cannot find the write-ahead log"));
  if (log == nullptr || log->pMethods == nullptr) {
    return absl::InternalError(absl::StrCat(database.path(), ": its write-ahead log is not open"));
  }
  const int result = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  if (result == SQLITE_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot sync the log of ", database.path(), ": ",
                                          sqlite3_errstr(result), " (SQLite code ", result, ")"));
}

absl::StatusOr<Database> OpenWriter(const std::string& path, const Store::Options& options) {
  RETURN_IF_ERROR(CheckForTruncation(path));
  ASSIGN_OR_RETURN(Database database,
                   Database::Open(path, Database::Mode::kReadWrite, options.vfs));
  // If the log may belong to another file, closing must not move it into this one.
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  RETURN_IF_ERROR(database.Execute("PRAGMA page_size = 4096"));  // only affects an empty file
  // Checks the version first, without a write, so that a newer file stays unchanged.
  RETURN_IF_ERROR(Migrate(database, options.migrations));
  RETURN_IF_ERROR(UseWriteAheadLog(database));
  RETURN_IF_ERROR(database.Execute(kWriterPragmas));
  RETURN_IF_ERROR(CheckForDamage(database, options.migrations));
  RETURN_IF_ERROR(SyncLog(database));
  sqlite3_db_config(database.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  return database;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& state_dir,
                                                   const Options& options) {
  RETURN_IF_ERROR(MakeDirectory(state_dir));
  const std::string path = absl::StrCat(state_dir, "/", kStoreFile);
  RETURN_IF_ERROR(MakeFile(path));
  // SQLite opens and writes these files by itself.
  for (const char* suffix : {"-wal", "-shm"}) RETURN_IF_ERROR(CheckFile(path + suffix));
  ASSIGN_OR_RETURN(Database writer, OpenWriter(path, options));
  ASSIGN_OR_RETURN(Database checkpointer,
                   Database::Open(path, Database::Mode::kReadWrite, options.vfs));
  RETURN_IF_ERROR(checkpointer.Execute(kCheckpointerPragmas));
  return std::unique_ptr<Store>(new Store(std::move(writer), std::move(checkpointer)));
}

absl::Status Store::Begin() {
  if (writer_.in_transaction()) {
    return absl::FailedPreconditionError("a transaction is open already");
  }
  failed_ = absl::OkStatus();
  marked_ = false;
  const absl::Status begun = writer_.Run("BEGIN IMMEDIATE");
  begun_ = begun.ok();
  return begun;
}

absl::Status Store::Commit() {
  absl::Status status = failed_;
  if (status.ok()) status = CheckInTransaction();
  if (status.ok() && log_may_differ_) status = DirtyAPage();
  if (status.ok()) {
    status = writer_.Run("COMMIT");
    log_may_differ_ = !status.ok();
    begun_ &= !status.ok();
  }
  if (status.ok() && !InPlace()) {
    status = absl::UnavailableError(absl::StrCat(writer_.path(), " was removed or replaced"));
  }
  if (!status.ok()) Rollback();
  return status;
}

// SQLite writes nothing at the COMMIT of a transaction without changes.
absl::Status Store::DirtyAPage() {
  return writer_.Run(absl::StrCat("PRAGMA application_id = ", kApplicationId));
}

void Store::Rollback() {
  ForgetKnown();
  begun_ = false;
  if (!writer_.in_transaction()) return;
  // A failure needs no handling: without a COMMIT, nothing takes effect.
  writer_.Run("ROLLBACK").IgnoreError();
}

absl::Status Store::Mark() {
  if (marked_) RETURN_IF_ERROR(Write("RELEASE mark", {}));
  marked_ = false;
  RETURN_IF_ERROR(Write("SAVEPOINT mark", {}));
  marked_ = true;
  return absl::OkStatus();
}

void Store::RollbackToMark() {
  ForgetKnown();
  Write("ROLLBACK TO mark", {}).IgnoreError();  // Commit() returns the error
}

absl::Status Store::Checkpoint() {
  int log_pages = 0;
  int moved_pages = 0;
  sqlite3* const handle = checkpointer_.handle();
  const std::string doing = absl::StrCat("checkpoint of ", checkpointer_.path());
  int result = sqlite3_wal_checkpoint_v2(handle, nullptr, SQLITE_CHECKPOINT_PASSIVE, &log_pages,
                                         &moved_pages);
  // SQLite read the header of the log while a commit was writing it. The next call tries again.
  if ((result & 0xff) == SQLITE_BUSY) return absl::OkStatus();
  RETURN_IF_ERROR(SqliteStatus(handle, result, doing));
  ASSIGN_OR_RETURN(const int64_t page_size, checkpointer_.SelectInteger("PRAGMA page_size"));
  if (log_pages * page_size <= kMaxLogBytes) return absl::OkStatus();
  result = sqlite3_wal_checkpoint_v2(handle, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  if ((result & 0xff) == SQLITE_BUSY) return absl::OkStatus();  // a reader blocks it
  return SqliteStatus(handle, result, doing);
}

absl::Status Store::AddDelivery(int64_t run, absl::string_view kind) {
  // An update without effect: an existing row counts as changed, so no changed row means no run.
  return WriteOne(
      "INSERT INTO delivery(run, kind, delivered_rows, refused_rows, complete, last_error, place) "
      "SELECT id, ?2, 0, 0, 0, '', ?3 FROM run WHERE id = ?1 "
      "ON CONFLICT(run, kind) DO UPDATE SET refused_rows = refused_rows",
      run, {run, kind, Parameter::Blob(EncodeDocument(model::Json::object()))});
}

absl::StatusOr<model::RunSettings> Store::SettingsOf(int64_t run) {
  RETURN_IF_ERROR(CheckInTransaction());
  Query query = writer_.Select(
      "SELECT settings FROM run JOIN job ON job.id = run.job WHERE run.id = ?1", {run});
  if (query.Next()) return DecodeSettings(query.Bytes(0));
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError(absl::StrCat("no run in the store has the id ", run));
}

absl::Status Store::SetDestination(int64_t run, const std::string& kind,
                                   const std::map<std::string, std::string>& settings) {
  ASSIGN_OR_RETURN(model::RunSettings changed, SettingsOf(run));
  const bool same = std::all_of(settings.begin(), settings.end(), [&](const auto& setting) {
    return changed.Of(kind, setting.first) == setting.second;
  });
  if (same) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t job,
                   writer_.SelectInteger("SELECT job FROM run WHERE id = ?1", {run}));
  RETURN_IF_ERROR(CheckNotRunning(job));
  ASSIGN_OR_RETURN(const std::set<std::string> trackers, TrackersOf(job));
  if (trackers.count(kind) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(kind,
                     " has a part of the job's runs already, and their other rows belong to the "
                     "same place; run `ranklog sync` without --base-url and --set"));
  }
  for (const auto& [name, value] : settings) changed.destination_settings[kind][name] = value;
  RETURN_IF_ERROR(Write("UPDATE job SET settings = ?2 WHERE id = ?1",
                        {job, Parameter::Blob(EncodeSettings(changed))}));
  // An error of the former settings.
  return Write(
      "UPDATE delivery SET last_error = '' WHERE kind = ?2 AND crashes < ?3 AND run IN (SELECT id "
      "FROM run WHERE job = ?1)",
      {job, kind, int64_t{model::Delivery::kSetApart}});
}

absl::Status Store::CheckNotRunning(int64_t job) {
  Query runs = writer_.Select("SELECT run_id, state FROM run WHERE job = ?1", {job});
  while (runs.Next()) {
    if (runs.Integer(1) != static_cast<int64_t>(model::RunState::kRunning)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "run ", runs.Text(0),
        " is still running, and its ranks give the address and the settings; wait for its "
        "end"));
  }
  return runs.status();
}

absl::StatusOr<std::set<std::string>> Store::TrackersOf(int64_t job) {
  std::set<std::string> trackers;
  Query query = writer_.Select(
      absl::StrCat(kSelectDelivery, "WHERE run.job = ?1 AND kind <> 'local'"), {job});
  while (query.Next()) {
    ASSIGN_OR_RETURN(const model::Delivery delivery, DeliveryOf(query));
    if (!delivery.cursor.empty() || delivery.delivered_rows != 0) trackers.insert(delivery.kind);
  }
  RETURN_IF_ERROR(query.status());
  return trackers;
}

absl::Status Store::MergeSettings(int64_t job, const model::Session& session) {
  model::RunSettings settings = session.settings;
  model::RunSettings known;
  int64_t known_rank = 0;
  {
    Query query = writer_.Select("SELECT settings_rank, settings FROM job WHERE id = ?1", {job});
    if (!query.Next()) return query.status();
    known_rank = query.Integer(0);
    ASSIGN_OR_RETURN(known, DecodeSettings(query.Bytes(1)));
  }
  if (settings.home.empty()) settings.home = known.home;
  int64_t rank = session.stream.rank;
  if (known_rank < rank) {
    if (settings.home == known.home) return absl::OkStatus();
    known.home = settings.home;
    settings = known;
    rank = known_rank;
  }
  settings.start_time_us = known.start_time_us;
  if (settings.destination_settings != known.destination_settings) {
    ASSIGN_OR_RETURN(const std::set<std::string> trackers, TrackersOf(job));
    for (const std::string& kind : trackers) {
      settings.destination_settings[kind] = known.destination_settings[kind];
    }
  }
  return Write("UPDATE job SET settings_rank = ?2, settings = ?3 WHERE id = ?1",
               {job, rank, Parameter::Blob(EncodeSettings(settings))});
}

absl::Status Store::PutDelivery(const model::Delivery& delivery) {
  return WriteOne(
      "INSERT INTO delivery(run, kind, delivered_rows, refused_rows, complete, last_error, place, "
      "delivered_items) "
      "SELECT id, ?2, ?3, ?4, ?5 AND state <> 0 AND (?2 = 'local' OR (rows <= ?3 AND "
      "NOT EXISTS (SELECT 1 FROM item WHERE item.run = ?1 AND item.id > ?8))), ?6, ?7, ?8 "
      "FROM run WHERE id = ?1 "
      "ON CONFLICT(run, kind) DO UPDATE SET delivered_rows = excluded.delivered_rows, "
      "refused_rows = excluded.refused_rows, complete = excluded.complete, "
      "last_error = excluded.last_error, place = excluded.place, "
      "delivered_items = excluded.delivered_items",
      delivery.run,
      {delivery.run, delivery.kind, delivery.delivered_rows, delivery.refused_rows,
       delivery.complete, delivery.last_error, Parameter::Blob(EncodeDocument(delivery.cursor)),
       delivery.delivered_items});
}

absl::Status Store::SetCrashes(const model::Delivery& delivery) {
  return WriteOne(
      "UPDATE delivery SET crashes = ?3, crashed_version = ?4, last_error = ?5 "
      "WHERE run = ?1 AND kind = ?2",
      delivery.run,
      {delivery.run, delivery.kind, int64_t{delivery.crashes}, delivery.crashed_version,
       delivery.last_error});
}

absl::Status Store::TryAgain(int64_t run, absl::string_view kind) {
  return Write(
      "UPDATE delivery SET crashes = ?3 - 1, last_error = '' "
      "WHERE run = ?1 AND kind = ?2 AND crashes >= ?3",
      {run, kind, int64_t{model::Delivery::kSetApart}});
}

absl::Status Store::ForgetCrashes() {
  return Write("UPDATE delivery SET crashes = 0 WHERE crashes BETWEEN 1 AND ?1 - 1",
               {int64_t{model::Delivery::kSetApart}});
}

absl::Status Store::AddDeadLetter(const model::DeadLetter& letter) {
  return WriteOne(
      "INSERT INTO dead_letter(run, kind, row, time_us, answer, content) "
      "SELECT id, ?2, ?3, ?4, ?5, ?6 FROM run WHERE id = ?1",
      letter.run,
      {letter.run, letter.kind, letter.row, letter.time_us, letter.answer,
       Parameter::Blob(letter.content)});
}

absl::Status Store::CheckInTransaction() const {
  if (writer_.in_transaction()) return absl::OkStatus();
  if (!begun_) return absl::FailedPreconditionError("no transaction is open");
  return absl::InternalError(absl::StrCat(
      writer_.path(), ": an error ended the transaction: ", sqlite3_errmsg(writer_.handle())));
}

absl::Status Store::Write(absl::string_view sql, absl::Span<const Parameter> parameters) {
  if (!failed_.ok()) return failed_;
  RETURN_IF_ERROR(CheckInTransaction());
  absl::Status status = writer_.Run(sql, parameters);
  if (!status.ok()) failed_ = status;
  return status;
}

absl::Status Store::WriteOne(absl::string_view sql, int64_t id,
                             absl::Span<const Parameter> parameters) {
  RETURN_IF_ERROR(Write(sql, parameters));
  if (writer_.changed_rows() != 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("nothing in the store has the id ", id));
}

void Store::ForgetKnown() {
  streams_.clear();
  runs_.clear();
}

}  // namespace ranklog::storage
