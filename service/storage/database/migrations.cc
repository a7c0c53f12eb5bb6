#include "service/storage/database/migrations.h"

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace ranklog::storage {
namespace {

// tables.md and rows.md describe every table and column.
constexpr char kVersion1[] = R"sql(
CREATE TABLE job(
  id INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  job_id TEXT NOT NULL,
  settings_rank INTEGER NOT NULL,
  settings BLOB NOT NULL,
  UNIQUE(project, job_id)
) STRICT;

CREATE TABLE start(
  id INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  given_id TEXT NOT NULL,
  job_id TEXT NOT NULL,
  launch TEXT NOT NULL,
  restart INTEGER NOT NULL,
  batch_job TEXT NOT NULL,
  requeue INTEGER NOT NULL,
  node TEXT NOT NULL,
  flags INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  notice TEXT NOT NULL
) STRICT;
CREATE INDEX start_of_given_id ON start(project, given_id);
CREATE INDEX start_of_job ON start(project, job_id);

CREATE TABLE run(
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES job(id),
  run_id TEXT NOT NULL,
  name TEXT NOT NULL,
  primary_rank INTEGER NOT NULL,
  primary_chosen INTEGER NOT NULL,
  local_only INTEGER NOT NULL,
  state INTEGER NOT NULL,
  exit_code INTEGER NOT NULL DEFAULT 0,
  reason TEXT NOT NULL DEFAULT '',
  rows INTEGER NOT NULL DEFAULT 0,
  replays INTEGER NOT NULL DEFAULT 0,
  last_step INTEGER NOT NULL DEFAULT -1,
  furthest_step INTEGER NOT NULL DEFAULT -1,
  attempt INTEGER NOT NULL DEFAULT 1,
  step_base INTEGER NOT NULL DEFAULT 0,
  started_us INTEGER NOT NULL,
  ended_us INTEGER NOT NULL DEFAULT 0,
  UNIQUE(job, run_id)
) STRICT;
CREATE INDEX run_of_id ON run(run_id);

CREATE TABLE stream(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id),
  job INTEGER NOT NULL REFERENCES job(id),
  start INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  is_primary INTEGER NOT NULL,
  local_rank INTEGER NOT NULL,
  world_size INTEGER NOT NULL,
  local_world_size INTEGER NOT NULL,
  node_rank INTEGER NOT NULL,
  node TEXT NOT NULL,
  pid INTEGER NOT NULL,
  thread INTEGER NOT NULL,
  process TEXT NOT NULL,
  client_version TEXT NOT NULL,
  init_us INTEGER NOT NULL,
  began_us INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  began_anew INTEGER NOT NULL,
  begun_step INTEGER NOT NULL,
  durable_seq INTEGER NOT NULL DEFAULT 0,
  aggregated_seq INTEGER NOT NULL DEFAULT 0,
  passed_step INTEGER NOT NULL DEFAULT -1,
  step_base INTEGER NOT NULL DEFAULT 0,
  state INTEGER NOT NULL,
  exit_code INTEGER NOT NULL DEFAULT 0,
  reason TEXT NOT NULL DEFAULT '',
  lost_ring_full INTEGER NOT NULL DEFAULT 0,
  lost_invalid INTEGER NOT NULL DEFAULT 0,
  lost_step_behind INTEGER NOT NULL DEFAULT 0,
  lost_too_large INTEGER NOT NULL DEFAULT 0,
  lost_after_finish INTEGER NOT NULL DEFAULT 0,
  lost_with_store INTEGER NOT NULL DEFAULT 0,
  late_rows INTEGER NOT NULL DEFAULT 0,
  replayed_rows INTEGER NOT NULL DEFAULT 0,
  merged_rows INTEGER NOT NULL DEFAULT 0,
  started_us INTEGER NOT NULL,
  ended_us INTEGER NOT NULL DEFAULT 0,
  UNIQUE(job, rank, incarnation)
) STRICT;
CREATE INDEX stream_of_run ON stream(run, rank, thread, started_us);
CREATE INDEX stream_of_ring ON stream(incarnation);

CREATE TABLE shape(
  stream INTEGER NOT NULL REFERENCES stream(id),
  shape INTEGER NOT NULL,
  width INTEGER NOT NULL,
  keys BLOB NOT NULL,
  PRIMARY KEY(stream, shape)
) STRICT, WITHOUT ROWID;

CREATE TABLE run_shape(
  run INTEGER NOT NULL REFERENCES run(id),
  shape INTEGER NOT NULL,
  width INTEGER NOT NULL,
  keys BLOB NOT NULL,
  PRIMARY KEY(run, shape)
) STRICT, WITHOUT ROWID;

CREATE TABLE stream_batch(
  id INTEGER PRIMARY KEY,
  stream INTEGER NOT NULL REFERENCES stream(id),
  last_seq INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX stream_batch_by_seq ON stream_batch(stream, last_seq);

CREATE TABLE run_batch(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id),
  last_index INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX run_batch_by_index ON run_batch(run, last_index);

CREATE TABLE replay_batch(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id),
  last_index INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX replay_batch_by_index ON replay_batch(run, last_index);

CREATE TABLE run_rewind(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id),
  first_step INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  replays INTEGER NOT NULL
) STRICT;
CREATE INDEX run_rewind_of_run ON run_rewind(run, id);

CREATE TABLE run_update(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id),
  stream INTEGER NOT NULL REFERENCES stream(id),
  time_us INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE INDEX run_update_of_run ON run_update(run, id);
CREATE INDEX run_update_of_stream ON run_update(stream, id);

CREATE TABLE delivery(
  run INTEGER NOT NULL REFERENCES run(id),
  kind TEXT NOT NULL,
  delivered_rows INTEGER NOT NULL,
  refused_rows INTEGER NOT NULL,
  complete INTEGER NOT NULL,
  last_error TEXT NOT NULL,
  place BLOB NOT NULL,
  crashes INTEGER NOT NULL DEFAULT 0,
  crashed_version TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(run, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_pending ON delivery(run) WHERE complete = 0;

CREATE TABLE dead_letter(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES run(id),
  kind TEXT NOT NULL,
  row INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  answer TEXT NOT NULL,
  content BLOB NOT NULL
) STRICT;
CREATE INDEX dead_letter_of_run ON dead_letter(run);

CREATE TABLE removed_run(
  id INTEGER PRIMARY KEY,
  project TEXT NOT NULL,
  job_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  ended_us INTEGER NOT NULL,
  removed_us INTEGER NOT NULL,
  emptied INTEGER NOT NULL
) STRICT;
CREATE INDEX removed_run_of_id ON removed_run(run_id);
CREATE INDEX removed_run_to_empty ON removed_run(id) WHERE emptied = 0;

CREATE TABLE removed_stream(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES removed_run(id),
  rank INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  durable_seq INTEGER NOT NULL
) STRICT;
CREATE INDEX removed_stream_of_run ON removed_stream(run);
CREATE INDEX removed_stream_of_ring ON removed_stream(incarnation, rank);
)sql";

// A block of a run's batch may have a source, for which the tables stay the same (rows.md). The table
// of updates becomes the table of items by a new name, so that a damaged copy keeps what
// can be read of it (recovery/remains.h).
constexpr char kVersion2[] = R"sql(
ALTER TABLE run_update RENAME TO item;
ALTER TABLE item ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item ADD COLUMN count INTEGER NOT NULL DEFAULT 1;
ALTER TABLE item ADD COLUMN after_row INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item ADD COLUMN called BLOB NOT NULL DEFAULT x'';
DROP INDEX run_update_of_run;
DROP INDEX run_update_of_stream;
CREATE INDEX item_of_run ON item(run, id, count);
CREATE INDEX item_of_kind ON item(run, kind, id);
CREATE INDEX item_of_stream ON item(stream, seq, count);
ALTER TABLE stream ADD COLUMN durable_item INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stream ADD COLUMN lost_items INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stream ADD COLUMN refused_items INTEGER NOT NULL DEFAULT 0;
ALTER TABLE removed_stream ADD COLUMN durable_item INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delivery ADD COLUMN delivered_items INTEGER NOT NULL DEFAULT 0;
UPDATE item SET seq = numbered.seq FROM (
  SELECT id, row_number() OVER (PARTITION BY stream ORDER BY id) AS seq FROM item
) AS numbered WHERE numbered.id = item.id;
UPDATE stream SET durable_item = (SELECT count(*) FROM item WHERE item.stream = stream.id);
UPDATE delivery SET delivered_items = (
  SELECT coalesce(max(item.id), 0) FROM item WHERE item.run = delivery.run
) WHERE complete = 1;
ALTER TABLE stream ADD COLUMN lost_values INTEGER NOT NULL DEFAULT 0;
)sql";

// Version 3: system metrics and facts of the hardware. No row refers to another one, so that a
// removed run's can be swept later.
constexpr char kVersion3[] = R"sql(
CREATE TABLE sample(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  number INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  shape INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX sample_by_number ON sample(run, number);
CREATE TABLE sample_shape(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  keys BLOB NOT NULL
) STRICT;
CREATE INDEX sample_shape_of_run ON sample_shape(run, keys);
CREATE TABLE hardware(
  id INTEGER PRIMARY KEY,
  data BLOB NOT NULL
) STRICT;
)sql";

// Version 4: what programs of the ranks printed.
constexpr char kVersion4[] = R"sql(
CREATE TABLE console(
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  number INTEGER NOT NULL,
  stream INTEGER NOT NULL,
  line INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  error INTEGER NOT NULL,
  text BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX console_by_number ON console(run, rank, number);
CREATE UNIQUE INDEX console_by_line ON console(stream, line);
CREATE INDEX console_by_change ON console(run, rank);
ALTER TABLE stream ADD COLUMN console_items INTEGER NOT NULL DEFAULT 0;
)sql";

// Version 5: rows that are joined across nodes.
constexpr char kVersion5[] = R"sql(
ALTER TABLE stream ADD COLUMN peer TEXT NOT NULL DEFAULT '';
ALTER TABLE stream ADD COLUMN joined_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stream ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;
CREATE INDEX stream_of_primary ON stream(run) WHERE is_primary;
)sql";

// Version 6: which streams are sent to rank 0's node, and how many of their rows are late there.
constexpr char kVersion6[] = R"sql(
ALTER TABLE stream ADD COLUMN joins INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stream ADD COLUMN joined_late INTEGER NOT NULL DEFAULT 0;
UPDATE stream SET joins = 1 WHERE joined <> 0 OR joined_seq > 0;
)sql";

constexpr const char* kMigrations[] = {kVersion1, kVersion2, kVersion3,
                                       kVersion4, kVersion5, kVersion6};

// Stores of programs from before the first release, whose versions are counted differently.
constexpr int64_t kUnreleasedId = 0x524B4C47;  // "RKLG"

// A release adds only a few versions. A number this far above ours is not a version.
constexpr int64_t kMaxVersionsAhead = 1000;

// Does not compare the schema's text, because another version of SQLite may write it differently.
constexpr char kColumns[] =
    "SELECT group_concat(what, ' ') FROM (SELECT m.name || '.' || p.name || ' ' || p.type AS what "
    "FROM sqlite_schema m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' "
    "AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, p.cid)";

absl::StatusOr<std::string> ColumnsOf(Database& database) {
  Query query = database.Select(kColumns);
  if (query.Next()) return query.Text(0);
  RETURN_IF_ERROR(query.status());
  return std::string();
}

// The file's version; 0 for an empty file.
absl::StatusOr<int64_t> VersionOf(Database& database) {
  ASSIGN_OR_RETURN(const int64_t application, database.SelectInteger("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, database.SelectInteger("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t tables,
                   database.SelectInteger("SELECT count(*) FROM sqlite_schema"));
  if (application == kApplicationId) {
    if (version < 0 || version > static_cast<int64_t>(std::size(kMigrations)) + kMaxVersionsAhead) {
      return absl::DataLossError(
          absl::StrCat(database.path(), ": unknown version ", version, " of the store's format"));
    }
    return version;
  }
  if (application == 0 && version == 0 && tables == 0) return 0;
  if (application == kUnreleasedId) {
    return absl::FailedPreconditionError(absl::StrCat(
        database.path(),
        " was written by a Ranklog from before its first release, and only that program can read "
        "it; it was not changed; use that program, or another state directory"));
  }
  ASSIGN_OR_RETURN(const int64_t ours, database.SelectInteger("SELECT count(*) FROM sqlite_schema "
                                                              "WHERE name IN ('stream_batch', "
                                                              "'run_batch')"));
  if (ours == 2) {
    return absl::DataLossError(absl::StrCat(database.path(), ": its header is damaged"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(database.path(), " is a database of another program; choose another directory"));
}

absl::Status Newer(const Database& database, int64_t version, int64_t known) {
  return absl::FailedPreconditionError(absl::StrCat(
      database.path(), " has version ", version, " of the store's format, and this program knows ",
      known,
      ": a newer Ranklog wrote it; use that one, or another state directory (if there is no newer "
      "one, the file is damaged; run `ranklog recover`)"));
}

absl::Status RunMigrations(Database& database, absl::Span<const char* const> migrations) {
  ASSIGN_OR_RETURN(const int64_t version, VersionOf(database));
  const auto known = static_cast<int64_t>(migrations.size());
  if (version > known) return Newer(database, version, known);
  if (version == known) return absl::OkStatus();
  RETURN_IF_ERROR(CheckTables(database, migrations.first(static_cast<size_t>(version))));
  for (int64_t v = version; v < known; ++v) {
    RETURN_IF_ERROR(database.Execute(migrations[static_cast<size_t>(v)]));
  }
  return database.Execute(
      absl::StrCat("PRAGMA application_id = ", kApplicationId, "; PRAGMA user_version = ", known)
          .c_str());
}

}  // namespace

absl::Span<const char* const> Migrations() { return kMigrations; }

absl::Status Migrate(Database& database, absl::Span<const char* const> migrations) {
  RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  absl::Status status = RunMigrations(database, migrations);
  if (status.ok()) status = database.Execute("COMMIT");
  if (!status.ok() && database.in_transaction()) {
    database.Execute("ROLLBACK").IgnoreError();  // closing the connection undoes it as well
  }
  return status;
}

absl::Status CheckTables(Database& database, absl::Span<const char* const> migrations) {
  ASSIGN_OR_RETURN(Database model, Database::Open(":memory:", Database::Mode::kReadWrite, nullptr));
  for (const char* migration : migrations) RETURN_IF_ERROR(model.Execute(migration));
  ASSIGN_OR_RETURN(const std::string expected, ColumnsOf(model));
  ASSIGN_OR_RETURN(const std::string found, ColumnsOf(database));
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(database.path(), ": its tables are not those of version ",
                                          migrations.size(), " of the store's format"));
}

absl::Status CheckReadable(Database& database, int64_t version) {
  ASSIGN_OR_RETURN(const int64_t found, VersionOf(database));
  if (found == version) return absl::OkStatus();
  if (found > version) return Newer(database, found, version);
  if (found == 0) RETURN_IF_ERROR(CheckTables(database, {}));  // the header may be damaged
  if (found == 0) return absl::NotFoundError(absl::StrCat(database.path(), " is empty"));
  return absl::FailedPreconditionError(absl::StrCat(database.path(), " has version ", found,
                                                    " of the store's format, older than ", version,
                                                    "; start ranklogd once to migrate it"));
}

}  // namespace ranklog::storage
