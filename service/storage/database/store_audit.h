// Checks the store's file for damage, beyond the checks made when rows are read.

#ifndef SERVICE_STORAGE_DATABASE_STORE_AUDIT_H_
#define SERVICE_STORAGE_DATABASE_STORE_AUDIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

// A reader with its own connection, for a store that a StoreReader may also have open. Not
// thread-safe.
class StoreAudit {
 public:
  static absl::StatusOr<std::unique_ptr<StoreAudit>> Open(const std::string& state_dir);

  // The errors that SQLite's own check of the whole file finds, one line each; empty if there are
  // none. Reads the whole file.
  absl::StatusOr<std::vector<std::string>> CheckFile();

  // The end position, by its table, of the first batch with rows after `seq`, or from `index` on.
  // Does not read the batch's bytes, so a caller can skip a damaged batch.
  //   kNotFound  there is none
  absl::StatusOr<uint64_t> StreamBatchEnd(int64_t stream, uint64_t after_seq);
  absl::StatusOr<uint64_t> RunBatchEnd(int64_t run, uint64_t from_index);
  absl::StatusOr<uint64_t> ReplayBatchEnd(int64_t run, uint64_t from_index);

 private:
  explicit StoreAudit(Database database) : database_(std::move(database)) {}

  Database database_;
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DATABASE_STORE_AUDIT_H_
