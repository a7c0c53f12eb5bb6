#include "client/base/text/fields.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace ranklog::internal {

std::vector<const ranklog_field*> LastOfEachKey(std::span<const ranklog_field> fields) {
  absl::flat_hash_map<absl::string_view, const ranklog_field*> last;
  const auto key = [](const ranklog_field& field) {
    return absl::string_view(KeyOf(field).data(), KeyOf(field).size());
  };
  for (const ranklog_field& field : fields) last[key(field)] = &field;
  std::vector<const ranklog_field*> kept;
  for (const ranklog_field& field : fields) {
    if (last[key(field)] == &field) kept.push_back(&field);
  }
  return kept;
}

}  // namespace ranklog::internal
