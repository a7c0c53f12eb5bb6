// The log strategies: which run a rank's session belongs to. Pure functions.

#ifndef SERVICE_AGGREGATE_STRATEGY_H_
#define SERVICE_AGGREGATE_STRATEGY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::aggregate {

// The run of a session, under `runs`, those of its job in this store, oldest first. Where another
// run has its id, the store gives it a number (Store::Attach).
//
// main: one run for the job, {id}, under the given name; rank 0 is primary. On a node that does not
//       have rank 0, the part of the run that this node keeps: {id}-{rank} of the node's first
//       rank, which is primary, under the given name too, and local only.
// node: one run per node, {id}-{rank} and rank-{rank} of the node's first rank, which is primary.
// all:  one run per rank, {id}-{rank} and rank-{rank}.
//
// {id}-{rank} has at most 128 characters: of a longer one {id} is cut (model::WithNumber).
//
// The node of a rank is its daemon's, and the name that the rank gives it: one daemon may serve
// several containers. Nothing is computed from rank numbers, which launchers lay out in blocks or
// in cycles. The node's first rank is known
//   - by itself: rank 0, and the one that its launcher calls local rank 0;
//   - once as many ranks have attached as its launcher says: it is the lowest of them;
//   - after a wait, or when all have ended (pipeline::LiveRun): the same.
// Until then its ranks join a run whose primary is not chosen (Run::primary_chosen). The choice is
// for good: a rank below the primary that comes later gets a run of its own.
//
// A rank joins, in this order: the run that has its ring; the one where it is the first; a run that
// is live here; the run where it was before, at the same place of the node (a restart); a new one.
model::RunAssignment Assign(const model::Session& session, absl::Span<const model::JobRun> runs);

// The run of a node whose first rank is `first_rank`, for `main` and `node`. `primary` is false.
model::RunAssignment RunOfNode(const model::RunSettings& settings, const std::string& job_id,
                               uint32_t first_rank);

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_STRATEGY_H_
