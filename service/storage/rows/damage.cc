#include "service/storage/rows/damage.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/base/status_macros.h"
#include "service/storage/database/migrations.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/file_system.h"
#include "service/storage/rows/documents.h"

namespace ranklog::storage {
namespace {

// A full check reads the whole file. At 1 GB/s that is fast enough up to this size.
constexpr int64_t kMaxCheckedBytes = 32 << 20;

// SQLite takes a shorter file for an empty one: it would overwrite the file and drop its log.
constexpr int64_t kMinFileBytes = 512;

constexpr char kDamaged[] = ".damaged-";

// Each query counts rows that contradict others.
constexpr const char* kContradictions[] = {
    ("SELECT count(*) FROM (SELECT durable_seq, aggregated_seq, lost_with_store, "
     "coalesce((SELECT max(last_seq) FROM stream_batch WHERE stream = stream.id), 0) AS stored "
     "FROM stream) WHERE aggregated_seq > durable_seq OR durable_seq < stored "
     "OR (lost_with_store = 0 AND durable_seq <> stored)"),
    ("SELECT count(*) FROM run WHERE rows <> "
     "coalesce((SELECT max(last_index) + 1 FROM run_batch WHERE run = run.id), 0) OR replays <> "
     "coalesce((SELECT max(last_index) + 1 FROM replay_batch WHERE run = run.id), 0)"),
    ("SELECT count(*) FROM (SELECT durable_item, lost_items, console_items, "
     "(SELECT coalesce(sum(count), 0) FROM item WHERE item.stream = stream.id) AS stored "
     "FROM stream) WHERE durable_item <> lost_items + console_items + stored"),
    ("SELECT count(*) FROM delivery JOIN run ON run.id = delivery.run "
     "WHERE kind <> 'local' AND delivered_rows > rows"),
};

absl::Status Damaged(const Database& database, absl::string_view how) {
  return absl::DataLossError(absl::StrCat(database.path(), ": ", how));
}

absl::Status CheckAllPages(Database& database) {
  {
    Query check = database.Select("PRAGMA integrity_check(1)");
    if (check.Next() && check.Text(0) != "ok") {
      return Damaged(
          database,
          absl::StrReplaceAll(check.Text(0), {{"*** in database main ***\n", ""}, {"\n", " "}}));
    }
    RETURN_IF_ERROR(check.status());
  }
  // Rows of removed runs have no owner until they are swept. If the table is missing, CheckTables()
  // reports it.
  const absl::StatusOr<int64_t> to_empty =
      database.SelectInteger("SELECT count(*) FROM removed_run WHERE emptied = 0");
  if (to_empty.ok() && *to_empty != 0) return absl::OkStatus();
  Query lost = database.Select("PRAGMA foreign_key_check");
  if (lost.Next())
    return Damaged(database, absl::StrCat("a row of ", lost.Text(0), " has no owner"));
  return lost.status();
}

// Without these documents, not even the list of runs can be made.
absl::Status CheckDocuments(Database& database) {
  Query settings = database.Select("SELECT settings FROM job");
  while (settings.Next()) {
    if (!DecodeSettings(settings.Bytes(0)).ok()) {
      return Damaged(database, "the settings of a job cannot be read");
    }
  }
  RETURN_IF_ERROR(settings.status());
  Query places = database.Select("SELECT place FROM delivery");
  while (places.Next()) {
    if (!DecodeDocument(places.Bytes(0)).ok()) {
      return Damaged(database, "the cursor of a delivery cannot be read");
    }
  }
  return places.status();
}

int64_t SizeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : 0;
}

// True also for a dangling symbolic link.
bool IsTaken(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

}  // namespace

absl::Status CheckForDamage(Database& database, absl::Span<const char* const> migrations) {
  ASSIGN_OR_RETURN(const int64_t pages, database.SelectInteger("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t page_size, database.SelectInteger("PRAGMA page_size"));
  if (pages * page_size <= kMaxCheckedBytes) RETURN_IF_ERROR(CheckAllPages(database));
  RETURN_IF_ERROR(CheckTables(database, migrations));
  for (const char* contradiction : kContradictions) {
    ASSIGN_OR_RETURN(const int64_t count, database.SelectInteger(contradiction));
    if (count != 0) return Damaged(database, "its counts contradict its rows");
  }
  return CheckDocuments(database);
}

absl::Status CheckForTruncation(const std::string& path) {
  const int64_t size = SizeOf(path);
  if (size >= kMinFileBytes || (size == 0 && SizeOf(path + "-wal") == 0)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": it has ", size, " bytes"));
}

absl::StatusOr<std::string> SetAside(const std::string& state_dir, absl::Time now) {
  const std::string path = absl::StrCat(state_dir, "/", kStoreFile);
  const std::string base =
      absl::StrCat(path, kDamaged, absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()));
  std::string aside = base;
  for (int n = 2; IsTaken(aside) || IsTaken(aside + "-wal"); ++n) {
    aside = absl::StrCat(base, "-", n);
  }
  for (const char* suffix : {"", "-wal"}) {
    if (*suffix != 0 && SizeOf(path + suffix) == 0) continue;
    if (link((path + suffix).c_str(), (aside + suffix).c_str()) != 0 && errno != ENOENT) {
      return absl::InternalError(absl::StrCat("cannot rename ", path, suffix, " to ", aside, suffix,
                                              ": ", absl::ErrnoToStatus(errno, "").message()));
    }
  }
  RETURN_IF_ERROR(SyncDirectory(state_dir));
  // The database first. The next start detects a log without its database, but not a database
  // without its log.
  for (const char* suffix : {"", "-wal", "-shm"}) unlink((path + suffix).c_str());
  RETURN_IF_ERROR(SyncDirectory(state_dir));
  return aside;
}

std::vector<std::string> SetAsideStores(const std::string& state_dir) {
  std::vector<std::string> paths;
  const std::string prefix = absl::StrCat(kStoreFile, kDamaged);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(state_dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code gone;
    if (entry->is_regular_file(gone) && absl::StartsWith(name, prefix) &&
        !absl::EndsWith(name, "-wal") && !absl::EndsWith(name, "-shm")) {
      paths.push_back(entry->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace ranklog::storage
