// Gathers a run's rows into batches: a block for each kind of rows, batches of a size that is good
// to store and to send.

#ifndef SERVICE_AGGREGATE_BATCH_BUILDER_H_
#define SERVICE_AGGREGATE_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "service/model/batch.h"

namespace ranklog::aggregate {

// Not thread-safe.
class BatchBuilder {
 public:
  static constexpr size_t kBatchBytes = 1 << 20;  // a batch ends when it is larger
  static constexpr size_t kBatchBlocks = 256;  // reading a batch looks at every block for every row

  explicit BatchBuilder(uint64_t next_index) : next_index_(next_index) {}

  uint64_t next_index() const { return next_index_; }

  // What the rows of a block have in common.
  struct Kind {
    uint32_t shape;
    bool counted;  // as model::Block's

    friend bool operator==(const Kind&, const Kind&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const Kind& kind) {
      return H::combine(std::move(hash), kind.shape, kind.counted);
    }
  };
  // Adds the next row of the run and returns room for its `width` numbers, to be filled before the
  // next call.
  double* AddRow(Kind kind, size_t width, int64_t step, int64_t time_us);
  // Adds a text to the row just added.
  void AddText(std::string key, std::string value);

  // What was gathered; the next row goes on from there.
  std::vector<model::Batch> Take();

 private:
  model::Block& BlockOf(Kind kind);

  uint64_t next_index_;
  std::vector<model::Batch> batches_;         // rows go to the last
  absl::flat_hash_map<Kind, size_t> blocks_;  // of the last batch
  size_t bytes_ = 0;                          // of the last batch
  Kind last_kind_ = {};                       // of the row just added
};

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_BATCH_BUILDER_H_
