// The log strategies: which run a rank's session belongs to. A pure function.

#ifndef SERVICE_AGGREGATE_STRATEGY_H_
#define SERVICE_AGGREGATE_STRATEGY_H_

#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::aggregate {

// main: one run for the job, {id}, under the given name; rank 0 is primary. On a node that does not
// have
//       rank 0, the part of the run that this node keeps: {id}-{rank} of local rank 0, which is
//       primary, under the given name too, and local only. (An id of its own, so that one daemon
//       that serves two "nodes" never mixes the rows of two primaries.)
// node: one run per node, {id}-{rank} and rank-{rank} of the node's local rank 0, which is primary.
// all:  one run per rank, {id}-{rank} and rank-{rank}.
//
// Ranks are taken to be numbered node by node, so a node's first rank is rank - local_rank.
model::RunAssignment Assign(const model::Session& session);

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_STRATEGY_H_
