#ifndef SERVICE_QUERY_RUN_DIGEST_H_
#define SERVICE_QUERY_RUN_DIGEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/aggregate/metric_table.h"
#include "service/model/run.h"
#include "service/query/series.h"
#include "service/storage/store_reader.h"

namespace ranklog::query {

struct DigestOptions {
  std::vector<std::string> plotted;  // metrics with a series of `columns`; empty: MainMetrics()
  size_t plots = 4;                  // limit if `plotted` is empty
  int columns = 1;
};

// A one-page summary of a run. Made by one pass over its rows, in memory that depends only on the
// number of metrics.
struct RunDigest {
  struct Metric {
    std::string name;
    Series series;  // one column, unless the metric is plotted
  };

  model::Json config;
  model::Json summary;
  std::vector<Metric> metrics;  // metrics with numbers, in order of first appearance
  std::vector<size_t> plotted;  // indexes into `metrics`, in drawing order
};

// Reads the run and its visible rows.
//   kNotFound  `plotted` names an unknown metric of the run; the message lists the known ones
absl::StatusOr<RunDigest> DigestRun(storage::StoreReader& reader, const model::Run& run,
                                    const DigestOptions& options);

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_RUN_DIGEST_H_
