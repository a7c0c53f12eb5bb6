// A run's config: what its ranks set, joined by who they are.

#ifndef SERVICE_AGGREGATE_RUN_CONFIG_H_
#define SERVICE_AGGREGATE_RUN_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// A value that a rank set in the summary.
struct SummaryValue {
  std::string key;
  model::Json value;
  int64_t before_step;  // rows of this step and above came later, those below before
};

// What the ranks set in the summary, merged by top-level key: the primary streams' values, the
// latest of each key; the other ranks' only for keys that no primary set. Updates of streams that
// are not in `streams` count as the other ranks'. Keys keep the order in which they were first set.
std::vector<SummaryValue> SummaryValues(absl::Span<const model::Stream> streams,
                                        absl::Span<const model::StoredUpdate> updates);

// What StoreReader::Updates(run.id, 0) and Streams(run.id) say, as one object:
//
//   ...                what the ranks set, merged as in SummaryValues()
//   rank, local_rank, world_size, node   of the primary rank, unless a rank set a key of that name
//   itself
//                      (a LoRA's "rank" is the user's); absent while the primary has no stream
//   ranklog            {"statistics_over": {"ranks": [0, 1], "of": 4, "node": "n1"}}: the ranks
//   whose statistics
//                      join the rows: those that this daemon serves, of how many in the job. Absent
//                      where statistics are off. Other members of an object of that name that a
//                      rank set are kept
model::Json RunConfig(const model::Run& run, absl::Span<const model::Stream> streams,
                      absl::Span<const model::StoredUpdate> updates);

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_RUN_CONFIG_H_
