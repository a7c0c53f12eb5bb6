// What tells whether the store's file is sound, beyond what reading rows tells.

#ifndef SERVICE_STORAGE_STORE_AUDIT_H_
#define SERVICE_STORAGE_STORE_AUDIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/storage/sqlite.h"

namespace ranklog::storage {

// A reader of its own connection, for a store that a StoreReader opens, too. Not thread-safe.
class StoreAudit {
 public:
  static absl::StatusOr<std::unique_ptr<StoreAudit>> Open(const std::string& state_dir);

  // What SQLite's own check of the whole file finds wrong, a line each; empty: nothing. Reads all
  // of the file.
  absl::StatusOr<std::vector<std::string>> CheckFile();

  // Where the first batch with rows after `seq`, or from `index` on, ends by the table, whatever
  // its bytes say: the way past a damaged one.
  //   kNotFound  there is none
  absl::StatusOr<uint64_t> StreamBatchEnd(int64_t stream, uint64_t after_seq);
  absl::StatusOr<uint64_t> RunBatchEnd(int64_t run, uint64_t from_index);
  absl::StatusOr<uint64_t> ReplayBatchEnd(int64_t run, uint64_t from_index);

 private:
  explicit StoreAudit(Database database) : database_(std::move(database)) {}

  Database database_;
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_STORE_AUDIT_H_
