// Reads the values of W&B's records. Input: a serialized wandb_internal.Record.

#include <string>
#include <vector>

#include "service/import/records/history_rows.h"
#include "service/import/records/record_object.h"
#include "service/import/records/record_values.h"
#include "tests/fuzz/fuzz.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::fuzz {
namespace {

using imports::RecordValues;
using wandb_internal::Record;

// Reads what protobuf reads.
template <typename Items>
void Compare(const Items& items, const std::vector<RecordValues::Value>& values,
             const RecordValues& record) {
  MUST(static_cast<size_t>(items.size()) == values.size());
  for (int i = 0; i < items.size(); ++i) {
    const RecordValues::Path path = record.PathOf(values[i]);
    MUST(values[i].json == items[i].value_json());
    std::vector<std::string> names(items[i].nested_key().begin(), items[i].nested_key().end());
    if (names.empty()) names = {items[i].key()};
    MUST(std::vector<std::string>(path.begin(), path.end()) == names);
  }
}

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog::fuzz;
  const absl::string_view bytes = Text(data, size);
  const ranklog::imports::ValueRecord found = ranklog::imports::FindValueRecord(bytes);
  if (found.field == 0) return 0;
  RecordValues values;
  const bool history = found.field == Record::kHistoryFieldNumber;
  const bool read = history ? values.ReadHistory(found.content) : values.ReadUpdates(found.content);
  if (read && history) {
    ranklog::imports::HistoryRows rows(0, {}, 0);
    rows.Add(values);
    MUST(rows.rows() == 1);
  } else if (read) {
    ranklog::imports::RecordObject object(/*merges=*/found.field == Record::kConfigFieldNumber);
    object.Apply(values);
    MUST(object.TakeChanged().is_object());
  }
  // Protobuf merges a field that comes twice; the last one counts here. Writers write it once.
  Record record;
  if (!record.ParseFromArray(data, static_cast<int>(size))) return 0;
  if (record.SerializeAsString() != std::string(bytes)) return 0;
  MUST(read);
  if (history) {
    Compare(record.history().item(), values.set(), values);
    MUST(values.step().has_value() == record.history().has_step());
    if (values.step()) MUST(*values.step() == record.history().step().num());
  } else if (record.has_summary()) {
    Compare(record.summary().update(), values.set(), values);
    Compare(record.summary().remove(), values.removed(), values);
  } else {
    Compare(record.config().update(), values.set(), values);
    Compare(record.config().remove(), values.removed(), values);
  }
  return 0;
}
