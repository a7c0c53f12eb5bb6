// Starts under one job id: which job a rank's session belongs to. A pure function.

#ifndef SERVICE_AGGREGATE_START_H_
#define SERVICE_AGGREGATE_START_H_

#include "absl/types/span.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::aggregate {

// The job of a session whose launch is known, under `starts`, those of the id that it gave, oldest
// first (Store::StartsOf). In this order:
//
// 1. A ring, and another ring of its process, stay where they were. So does the ring of a dead rank
//    that is found later.
// 2. The ranks of one launch belong to one job. A rank of it that begins again goes on there if its
//    launcher restarted it: the launcher counts a restart, or the rank had died and the launcher
//    starts dead ranks again. Else that is another start.
// 3. A batch job that was queued again goes on in its job; in that of its id if none is known here.
// 4. Another launch, under the resume setting:
//      unset        the id if no start had it. The newest job of that id if it is live, this rank
//                   was not in it, and it has no launch of this node: the launches of several nodes
//                   are one start. Else a new job.
//      allow, auto  the job of that id; a new one if the rank is alive there.
//      must         the same; refused if no start had that id and the session does not go to a
//                   tracker, which may know it.
//      never        the id if no start had it, else refused.
//    Without an id of the user's, `resume` does not count.
//
// A refused start has a job of its own, whose rows stay on this node.
model::JobChoice ChooseJob(const model::Session& session, absl::Span<const model::JobStart> starts);

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_START_H_
