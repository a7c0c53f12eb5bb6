// The values of a history, config or summary record, as views into its bytes. Nearly all records of
// a log are such, and protobuf's messages would allocate memory for each of their values.

#ifndef SERVICE_IMPORT_RECORDS_RECORD_VALUES_H_
#define SERVICE_IMPORT_RECORDS_RECORD_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace ranklog::imports {

// Not thread-safe. It keeps its memory from record to record.
class RecordValues {
 public:
  // The names of the members that lead to a value: one, or several for a nested value.
  using Path = absl::Span<const absl::string_view>;
  struct Value {
    size_t first_name = 0;
    size_t names = 0;
    absl::string_view json{};  // empty for a removed value
  };

  // Reads a serialized HistoryRecord, ConfigRecord or SummaryRecord, which must outlive the views.
  // False: it is damaged, or a name is not UTF-8.
  bool ReadHistory(absl::string_view record);
  bool ReadUpdates(absl::string_view record);

  const std::vector<Value>& set() const { return set_; }
  const std::vector<Value>& removed() const { return removed_; }  // not of a history record
  absl::optional<int64_t> step() const { return step_; }          // of a history record
  Path PathOf(const Value& value) const {
    return absl::MakeConstSpan(names_).subspan(value.first_name, value.names);
  }

 private:
  bool Read(absl::string_view record, bool history);
  bool ReadValue(absl::string_view item, std::vector<Value>* values);

  std::vector<absl::string_view> names_;
  std::vector<Value> set_;
  std::vector<Value> removed_;
  absl::optional<int64_t> step_;
};

// A serialized wandb_internal.Record that has values: the field that says its type, and its content.
struct ValueRecord {
  int field = 0;  // of Record, such as Record::kHistoryFieldNumber; 0: not such a record
  absl::string_view content{};
};
ValueRecord FindValueRecord(absl::string_view record);

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_RECORDS_RECORD_VALUES_H_
