// A run's config: the values that its ranks set, and their identity. Its metadata: the facts of its
// process.

#ifndef SERVICE_AGGREGATE_RUN_CONFIG_H_
#define SERVICE_AGGREGATE_RUN_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// A summary value that a rank set.
struct SummaryValue {
  std::string key;
  model::Json value;
  int64_t before_step;  // rows of this step and above came later than the value
};

// The summary values of all ranks, merged by top-level key. For each key, the latest value of a
// primary stream is used. Values of other ranks are used only for keys that no primary set. Items
// of streams that are not in `streams` count as those of other ranks. Keys keep the order in which
// they were first set.
std::vector<SummaryValue> SummaryValues(absl::Span<const model::Stream> streams,
                                        absl::Span<const model::StoredItem> items);

// The run's config as one object, from StoreReader::Items(run.id, 0) and Streams(run.id):
//
//   ...      the values that the ranks set, merged as in SummaryValues()
//   rank, local_rank, world_size, node
//            those of the primary rank. Absent while the primary has no stream. If a rank set a
//            key of that name, its value is kept (a LoRA's "rank" belongs to the user)
//   ranklog  {"statistics_over": {"ranks": [0, 1], "of": 4, "node": "n1"}}. `ranks` are the ranks
//            in the run's statistics, which are those of this daemon. `of` is the number of ranks
//            in the job. Absent if statistics are off. If a rank set an object of that name, its
//            other members are kept
//
// A run that was imported has only the values.
model::Json RunConfig(const model::Run& run, absl::Span<const model::Stream> streams,
                      absl::Span<const model::StoredItem> items);

// The metadata of the run: that of the newest item of a primary stream. An empty object if no
// primary process sent one. Reads the same items and streams as RunConfig().
model::Json RunMetadata(const model::Run& run, absl::Span<const model::Stream> streams,
                        absl::Span<const model::StoredItem> items);

// Whether a rank has said that it is about to be preempted, in the newest attempt. Reads the same
// items and streams as RunConfig().
bool IsPreempting(absl::Span<const model::Stream> streams,
                  absl::Span<const model::StoredItem> items);

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_CONFIG_H_
