#include "client/handles.h"

#include <deque>

#include "absl/container/flat_hash_map.h"

namespace ranklog::internal {
namespace {

struct Tables {
  std::deque<std::string> keys;
  absl::flat_hash_map<std::string, uint32_t> key_ids;
  absl::flat_hash_map<std::vector<std::string>, std::shared_ptr<const RowShape>> rows;
};

// Never destroyed: threads may log while the process exits.
Tables& GetTables() ABSL_EXCLUSIVE_LOCKS_REQUIRED(StateMutex()) {
  static Tables* const tables = new Tables;
  return *tables;
}

}  // namespace

uint32_t InternKey(std::string_view key) {
  MutexLock lock(StateMutex());
  Tables& tables = GetTables();
  const auto [entry, inserted] =
      tables.key_ids.try_emplace(std::string(key), static_cast<uint32_t>(tables.keys.size() + 1));
  if (inserted) tables.keys.emplace_back(key);
  return entry->second;
}

std::string_view InternedKey(uint32_t id) {
  MutexLock lock(StateMutex());
  Tables& tables = GetTables();
  return id == 0 || id > tables.keys.size() ? std::string_view() : tables.keys[id - 1];
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
