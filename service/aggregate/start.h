// Starts under one job id: decides which job a rank's session belongs to. A pure function.

#ifndef SERVICE_AGGREGATE_START_H_
#define SERVICE_AGGREGATE_START_H_

#include <string>

#include "absl/types/span.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::aggregate {

// Chooses the job of a session with a known launch. `starts` are those of the session's given id,
// oldest first (Store::StartsOf). The first rule that applies decides:
//
// 1. A known ring, or another ring of the same process, stays in its job. So does the ring of a
//    dead rank that is found later.
// 2. The ranks of one launch belong to one job. If a rank of the launch begins again, it continues
//    there if its launcher restarted it. That is so if the launcher counts a restart, or if the
//    rank had died and the launcher restarts dead ranks. Otherwise it is another start: a new job,
//    or rule 4 if the user gave the id and `resume`.
// 3. A requeued batch job continues in its job; if none is known here, in the job of its id.
// 4. Another launch depends on `resume`:
//      unset        - the job of that id, if no start had the id
//                   - the newest job of that id, if it is live and this rank was not in it: the
//                     launches of several nodes are one start. Not if the session's launch has all
//                     ranks of its node (Launch::whole_node) and the job has another one there
//                   - the newest job of that id, if the launchers are not visible and both may be
//                     one start (JobStart::may_be_one)
//                   - otherwise a new job
//      allow, auto  the job of that id; a new job if the rank is alive there
//      must         the same; refused if no start had that id and the session does not go to a
//                   tracker, which may know it
//      never        the job of that id, if no start had the id; otherwise refused
//    Without an id from the user, `resume` has no effect.
//
// A refused start gets a job of its own, whose rows stay on this node.
model::JobChoice ChooseJob(const model::Session& session, absl::Span<const model::JobStart> starts);

// The same for a rank of another node, whose daemon sends its rows. It joins a job that rank 0 has
// begun here, so it never makes one. Empty: none so far. The first rule that applies decides:
//
// 1. The job of a known ring, or of another ring of the same process.
// 2. The newest job of its launch, if the launch has nodes in common, unless the rank has ended
//    there.
// 3. The newest job of its id whose rank 0 is alive and in which the rank had no part. Not if that
//    job's launch has ranks of several nodes, since that launch is another one. Nor if the session's
//    launch has all ranks of its node (Launch::whole_node) and the job has another one there.
// 4. With `resume`, or after a requeue: the job that continues.
// 5. The newest job of its id in which the rank had no part, with the same exceptions: its rows
//    come late.
std::string ChooseJobOfPeer(const model::Session& session,
                            absl::Span<const model::JobStart> starts);

}  // namespace ranklog::aggregate

#endif  // SERVICE_AGGREGATE_START_H_
