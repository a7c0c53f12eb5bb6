#include "client/ring/handles.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_set.h"

namespace ranklog::internal {
namespace {

struct Tables {
  absl::node_hash_set<std::string> keys;
  absl::flat_hash_map<std::vector<std::string>, std::shared_ptr<const RowShape>> rows;
};

// Never destroyed: threads may log while the process exits.
Tables& GetTables() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex()) {
  static Tables* const tables = new Tables;
  return *tables;
}

}  // namespace

const std::string* InternKey(std::string_view key) {
  MutexLock lock(StateMutex());
  return &*GetTables().keys.emplace(key).first;
}

std::shared_ptr<const RowShape> InternRow(std::span<const std::string_view> keys) {
  std::vector<std::string> owned(keys.begin(), keys.end());
  MutexLock lock(StateMutex());
  Tables& tables = GetTables();
  auto& row = tables.rows[owned];
  if (row == nullptr) {
    row = std::make_shared<const RowShape>(
        RowShape{static_cast<uint32_t>(tables.rows.size() - 1), std::move(owned)});
  }
  return row;
}

}  // namespace ranklog::internal
