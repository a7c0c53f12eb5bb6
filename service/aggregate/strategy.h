// The log strategies, which decide the run of a rank's session. Pure functions.

#ifndef SERVICE_AGGREGATE_STRATEGY_H_
#define SERVICE_AGGREGATE_STRATEGY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::aggregate {

// Chooses the run of a session. `runs` are those of its job in this store, oldest first. If another
// run has the id, the store appends a number (Store::Attach).
//
//         run                       id                          name         primary
//   main  one for the job           {id}                        as given     rank 0
//         on a node without rank 0  {id}-{rank}, of first rank  as given     the node's first rank
//   node  one per node              {id}-{rank}, of first rank  rank-{rank}  the node's first rank
//   all   one per rank              {id}-{rank}                 rank-{rank}  the rank
//
// RunSettings::name_pattern replaces `rank-{rank}`. It may contain {rank}, {local_rank}, {node},
// {node_rank}, {id} (of the job) and {name} (as given).
//
// The second line is the node's part of the run; it is local only.
//
// {id}-{rank} has at most 128 characters; a longer {id} is cut (model::WithNumber).
//
// The node of a rank is its daemon's node together with the node name from the rank, because one
// daemon may serve several containers. Nothing is computed from rank numbers, because launchers
// assign them in blocks or in cycles. The node's first rank is known
//   - at once, if it is rank 0, or the rank that its launcher calls local rank 0
//   - when as many ranks have attached as the launcher reports: it is the lowest of them
//   - after a wait, or when all have ended (pipeline::LiveRun): also the lowest of them
//
// Until then, the node's ranks join a run whose primary is not chosen (Run::primary_chosen). The
// choice is final. A later rank below the primary gets a run of its own.
//
// A rank joins the first of these that exists:
//   1. the run that has its ring
//   2. the run of which it is the first rank
//   3. a live run here whose primary rank is not above this rank, or not chosen yet
//   4. a run here of the same start, even if it has ended, in which this rank had no part and
//      whose primary rank is not above this rank
//   5. the run that it had before, with the same local rank and local world size (a restart)
//   6. a new run
model::RunAssignment Assign(const model::Session& session, absl::Span<const model::JobRun> runs);

// The run of a node whose first rank is `first_rank`, for `main` and `node`. `primary` is false.
// `identity` is that of the first rank, or that of another rank of its node, with local rank 0.
model::RunAssignment RunOfNode(const model::RunSettings& settings, const std::string& job_id,
                               uint32_t first_rank, const model::Identity& identity);

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_STRATEGY_H_
