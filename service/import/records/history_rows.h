// Makes rows of history records.

#ifndef SERVICE_IMPORT_RECORDS_HISTORY_ROWS_H_
#define SERVICE_IMPORT_RECORDS_HISTORY_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "service/import/records/record_values.h"
#include "service/model/batch.h"

namespace ranklog::imports {

// One record is one row. `_step` and `_timestamp` are its step and its time, to a microsecond. All
// other values are kept as they are, `_runtime` included. Nested keys become objects. The step of a
// row without `_step` is its place in the log.
//
// Not thread-safe.
class HistoryRows {
 public:
  // Rows that follow the first `rows` of the stream. `shapes`: those of the stream, by id.
  HistoryRows(uint64_t rows, const std::vector<std::vector<std::string>>& shapes,
              int64_t started_us);

  // The run already has the steps up to `last`. From now on, a step that is not behind the row before
  // is raised to the next one, as the official client does for a resumed run. `always`: otherwise
  // only if the log's first row has step 0, so that its steps were counted anew.
  void Follow(int64_t last, bool always);

  // The values of a history record.
  void Add(const RecordValues& record);

  uint64_t rows() const { return next_ - 1; }      // of the stream, so far
  uint64_t not_json() const { return not_json_; }  // values that were left out
  int64_t last_us() const { return last_us_; }

  // What was added since the last Clear().
  const std::vector<std::pair<uint32_t, std::vector<std::string>>>& shapes() const {
    return new_shapes_;
  }
  const std::vector<model::Batch>& batches() const { return batches_; }
  void Clear();

 private:
  struct Kind {
    uint32_t shape = 0;
    bool counted = false;
    friend bool operator==(const Kind&, const Kind&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Kind& kind) {
      return H::combine(std::move(hash), kind.shape, kind.counted);
    }
  };

  void AddValue(absl::string_view key, absl::string_view json);
  void AddNested(const RecordValues& record);
  void SortNumbers();
  uint32_t ShapeOfRow();
  model::Block& BlockOf(Kind kind);

  uint64_t next_;
  enum class Raise { kNo, kIfFirstIsZero, kYes };
  Raise raise_ = Raise::kNo;
  int64_t last_step_ = -1;  // of the run, if steps are raised
  int64_t last_us_;
  uint64_t not_json_ = 0;
  // Keys have numbers in the order in which they first came. The keys of a record come in any order,
  // and those of a row are in the order of their numbers, so that rows with equal keys have one shape.
  using KeyNumber = uint32_t;
  KeyNumber NumberOf(absl::string_view key);
  std::vector<std::string> keys_;
  absl::flat_hash_map<std::string, KeyNumber> key_numbers_;
  absl::flat_hash_map<std::vector<KeyNumber>, uint32_t> known_shapes_;
  uint32_t next_shape_ = 1;
  std::vector<std::pair<uint32_t, std::vector<std::string>>> new_shapes_;

  std::vector<model::Batch> batches_;         // rows are added to the last one
  absl::flat_hash_map<Kind, size_t> blocks_;  // of the last batch
  size_t bytes_ = 0;                          // of the last batch

  // The row.
  struct Number {
    KeyNumber key;
    uint32_t order;  // in the record
    double value;
  };
  std::vector<Number> numbers_;
  std::vector<model::Text> texts_;
  std::vector<KeyNumber> row_keys_;
};

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_RECORDS_HISTORY_ROWS_H_
