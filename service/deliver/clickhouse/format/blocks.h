// The rows of a run's streams as blocks for ClickHouse. Under every strategy, these are the rows that
// the ranks logged; the run's own rows, which the strategy makes, are not used.

#ifndef SERVICE_DELIVER_CLICKHOUSE_FORMAT_BLOCKS_H_
#define SERVICE_DELIVER_CLICKHOUSE_FORMAT_BLOCKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "service/deliver/clickhouse/cursor.h"
#include "service/deliver/clickhouse/format/native.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::deliver::clickhouse {

// The name of a run in the tables: the job's id. So all nodes of a job, and all ranks under `node`
// and `all`, have the same one.
std::string RunName(const model::Run& run, absl::Span<const model::Stream> streams);
// Names the part of the job that this store has: the incarnation of its first stream.
uint64_t PartOf(absl::Span<const model::Stream> streams);

// A row's step, as `show` and the page count it.
inline int64_t StepOf(const model::Stream& stream, const model::Block& block, size_t row) {
  return block.steps[row] + (block.counted ? stream.step_base : 0);
}
// False: the offset of its steps is not known yet.
inline bool HasStep(const model::Stream& stream, const model::Block& block) {
  return !block.counted || stream.attempt <= 1 || stream.aggregated_seq > 0;
}

// Columns of the table `points` or `texts`, of several streams.
class BlockColumns {
 public:
  size_t rows() const { return seqs.size(); }
  // The insert's body, compressed.
  absl::StatusOr<std::string> Points(const std::string& project, const std::string& run) const;
  absl::StatusOr<std::string> Texts(const std::string& project, const std::string& run) const;

  Dictionary keys;
  std::vector<uint32_t> metrics;
  std::vector<uint32_t> of_stream;  // an index of the next three
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> attempts;
  std::vector<uint64_t> streams;
  std::vector<int64_t> steps;
  std::vector<int64_t> times_us;
  std::vector<double> values;      // of points
  std::vector<std::string> texts;  // of texts
  std::vector<uint8_t> are_json;   // of texts
  std::vector<uint64_t> seqs;

  // The next rows are of this stream.
  void Begin(const model::Stream& stream);

 private:
  void AddCommon(NativeBlock* block) const;
};

inline constexpr char kPointColumns[] =
    "project, run, metric, rank, attempt, stream, step, ts, seq, value";
inline constexpr char kTextColumns[] =
    "project, run, metric, rank, attempt, stream, step, ts, seq, value, is_json";

// The rows of a cut that the server does not have.
struct Blocks {
  BlockColumns points;
  BlockColumns texts;
  size_t rows() const { return points.rows() + texts.rows(); }
  // The first and last rows per stream, for the tokens.
  std::string point_range;
  std::string text_range;
  std::map<int64_t, uint64_t> to;  // the last row of each stream that was read
  bool more = false;               // further rows wait
};

// Reads the rows of one run. Not thread-safe.
class RowReader {
 public:
  // The rows after `places`: those of a cut, or the next ones, until there are `most` values.
  absl::StatusOr<Blocks> Read(storage::StoreReader& reader, absl::Span<const model::Stream> streams,
                              const std::map<int64_t, Place>& places,
                              const absl::optional<Cut>& cut, size_t most);

  // Visits the rows of a stream after `after`, up to `to`: fn(block, row, seq, keys). Stops if it
  // returns false.
  using Visitor = absl::FunctionRef<bool(const model::Block& block, size_t row, uint64_t seq,
                                         const std::vector<std::string>& keys)>;
  absl::Status Visit(storage::StoreReader& reader, const model::Stream& stream, uint64_t after,
                     uint64_t to, Visitor visit);

 private:
  absl::StatusOr<const std::vector<std::vector<std::string>>*> ShapesOf(
      storage::StoreReader& reader, const model::Stream& stream, const model::Batch& batch);

  std::map<int64_t, std::vector<std::vector<std::string>>> shapes_;  // by stream
};

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_FORMAT_BLOCKS_H_
