#include "service/storage/database/store_audit.h"

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/database/store_file.h"

namespace ranklog::storage {

absl::StatusOr<std::unique_ptr<StoreAudit>> StoreAudit::Open(const std::string& state_dir) {
  ASSIGN_OR_RETURN(Database database, Database::Open(absl::StrCat(state_dir, "/", kStoreFile),
                                                     Database::Mode::kReadOnly, nullptr));
  RETURN_IF_ERROR(database.Execute("PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY"));
  return std::unique_ptr<StoreAudit>(new StoreAudit(std::move(database)));
}

absl::StatusOr<std::vector<std::string>> StoreAudit::CheckFile() {
  std::vector<std::string> findings;
  Query query = database_.Select("PRAGMA integrity_check(20)");
  while (query.Next()) {
    if (std::string line = query.Text(0); line != "ok") findings.push_back(std::move(line));
  }
  RETURN_IF_ERROR(query.status());
  return findings;
}

absl::StatusOr<uint64_t> StoreAudit::StreamBatchEnd(int64_t stream, uint64_t after_seq) {
  ASSIGN_OR_RETURN(const int64_t end, database_.SelectInteger(
                                          "SELECT last_seq FROM stream_batch WHERE stream = ?1 AND "
                                          "last_seq > ?2 ORDER BY last_seq LIMIT 1",
                                          {stream, after_seq}));
  return static_cast<uint64_t>(end);
}

absl::StatusOr<uint64_t> StoreAudit::RunBatchEnd(int64_t run, uint64_t from_index) {
  ASSIGN_OR_RETURN(const int64_t end,
                   database_.SelectInteger("SELECT last_index FROM run_batch WHERE run = ?1 AND "
                                           "last_index >= ?2 ORDER BY last_index LIMIT 1",
                                           {run, from_index}));
  return static_cast<uint64_t>(end);
}

absl::StatusOr<uint64_t> StoreAudit::ReplayBatchEnd(int64_t run, uint64_t from_index) {
  ASSIGN_OR_RETURN(const int64_t end,
                   database_.SelectInteger("SELECT last_index FROM replay_batch WHERE run = ?1 AND "
                                           "last_index >= ?2 ORDER BY last_index LIMIT 1",
                                           {run, from_index}));
  return static_cast<uint64_t>(end);
}

}  // namespace ranklog::storage
