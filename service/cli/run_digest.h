#ifndef SERVICE_CLI_RUN_DIGEST_H_
#define SERVICE_CLI_RUN_DIGEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/aggregate/metric_table.h"
#include "service/cli/plot.h"
#include "service/model/run.h"
#include "service/storage/store.h"

namespace ranklog::cli {

struct DigestOptions {
  std::vector<std::string> plotted;  // metrics whose series has `columns`; empty: MainMetrics()
  size_t plots = 4;                  // at most so many, if `plotted` is empty
  int columns = 1;
};

// A run in a page: made by one pass over its rows, in memory that depends on the number of metrics
// only.
struct RunDigest {
  struct Metric {
    std::string name;
    Series series;  // of one column, unless it is plotted
  };

  model::Json config;
  model::Json summary;
  std::vector<Metric> metrics;  // with numbers, in the order of their first appearance
  std::vector<size_t> plotted;  // indexes into `metrics`, in the order to draw them
};

//   kNotFound  `plotted` names a metric that the run does not have; the message lists those it has
absl::StatusOr<RunDigest> DigestRun(storage::StoreReader& reader, const model::Run& run,
                                    const DigestOptions& options);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUN_DIGEST_H_
