// What describes a run and its ranks in ClickHouse: rows of the tables `runs` and `ranks`.

#ifndef SERVICE_DELIVER_CLICKHOUSE_DESCRIPTION_H_
#define SERVICE_DELIVER_CLICKHOUSE_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/aggregate/metric_table.h"
#include "service/aggregate/run_summary.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::deliver::clickhouse {

// Elements of the format JSONEachRow, one per line. `version` is that of the row: of several rows of
// a run's part, or of a stream, the largest counts.
struct Description {
  std::string run;
  std::string ranks;
  std::string digest;  // of what a change of the description changes; the number of rows does not
};
// `config`: the text of it.
Description Describe(const model::Run& run, absl::Span<const model::Stream> streams,
                     absl::Span<const model::StoredItem> items, const std::string& config,
                     const std::string& summary, uint64_t version);

// The text of the config, as it is in the table: of all streams of the run, because it names the
// nodes that are joined.
std::string ConfigText(const model::Run& run, absl::Span<const model::Stream> streams,
                       absl::Span<const model::StoredItem> items);

// Makes the summary of an ended run from its rows, piece by piece. Not thread-safe.
class RunSummaryReader {
 public:
  RunSummaryReader(absl::Span<const model::StoredItem> items,
                   absl::Span<const model::Stream> streams);
  RunSummaryReader(const RunSummaryReader&) = delete;
  RunSummaryReader& operator=(const RunSummaryReader&) = delete;

  // Reads further rows. True: all are read.
  absl::StatusOr<bool> Read(storage::StoreReader& reader, const model::Run& run);
  std::string Text() const;

 private:
  aggregate::MetricTable table_;
  aggregate::RunSummary summary_{&table_};
  uint64_t next_row_ = 0;
};

// The run's streams of this daemon's ranks. Those of other nodes, which it joins, come to the server
// from their own daemons.
absl::StatusOr<std::vector<model::Stream>> OwnStreams(storage::StoreReader& reader, int64_t run);

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_DESCRIPTION_H_
