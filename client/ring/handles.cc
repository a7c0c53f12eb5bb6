#include "client/ring/handles.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_set.h"
#include "client/base/text/keys.h"

namespace ranklog::internal {
namespace {

struct Tables {
  absl::node_hash_set<std::string> keys;
  absl::flat_hash_map<std::vector<std::string>, std::shared_ptr<const RowShape>> rows;
};

RowShape MakeShape(uint32_t index, const std::vector<std::string>& given) {
  RowShape shape{.index = index, .keys = {}, .given = given.size()};
  absl::flat_hash_map<absl::string_view, size_t> last;
  for (size_t i = 0; i < given.size(); ++i) last[given[i]] = i;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!KeyError(given[i]).empty()) {
      ++shape.left_out;
    } else if (last[given[i]] == i) {
      shape.keys.push_back(given[i]);
      shape.positions.push_back(i);
    }
  }
  if (shape.keys.size() == given.size()) shape.positions.clear();
  return shape;
}

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
        MakeShape(static_cast<uint32_t>(tables.rows.size() - 1), owned));
  }
  return row;
}

}  // namespace ranklog::internal
