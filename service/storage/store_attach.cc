// How a session joins the store: its job, its run and its stream.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/documents.h"
#include "service/storage/rows/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

using model::RunState;
using model::StreamState;

constexpr char kSelectStreamId[] =
    "SELECT id FROM stream WHERE job = ?1 AND rank = ?2 AND incarnation = ?3";

}  // namespace

absl::StatusOr<std::vector<model::JobRun>> Store::RunsOfJob(const model::Session& session) {
  RETURN_IF_ERROR(CheckInTransaction());
  const model::Identity& identity = session.identity;
  const model::Launch& launch = session.launch;
  Query query = writer_.Select(
      absl::StrCat(
          "SELECT run.id, run.run_id, run.primary_rank, run.local_only, run.primary_chosen, "
          "count(DISTINCT iif(stream.node = ?10, stream.rank, NULL)), "
          "coalesce(min(iif(stream.node = ?10, stream.rank, NULL)), 0), "
          "run.state = ?11 AND max(stream.node = ?10), "
          "max(stream.rank = ?12 AND stream.incarnation = ?13), "
          "max(stream.node = ?10 AND stream.rank = ?12), "
          "max(stream.node = ?10 AND stream.rank = ?12 AND stream.local_rank = ?14 AND "
          "stream.local_world_size = ?15), "
          "coalesce(max(stream.node = ?10 AND ",
          SameStartCondition(),
          "), 0), run.state = ?11 "
          "FROM job JOIN stream ON stream.job = job.id JOIN run ON run.id = stream.run "
          "LEFT JOIN start ON start.id = stream.start "
          "WHERE job.project = ?1 AND job.job_id = ?16 GROUP BY run.id ORDER BY run.id"),
      {session.stream.project, session.settings.start_time_us, identity.boot_id, identity.began_us,
       launch.id, launch.restart, launch.requeue, launch.unseen, identity.world_size, identity.node,
       static_cast<int64_t>(RunState::kRunning), session.stream.rank, session.stream.incarnation,
       identity.local_rank, identity.local_world_size, session.stream.job_id});
  std::vector<model::JobRun> runs;
  while (query.Next()) {
    runs.push_back({.id = query.Integer(0),
                    .run_id = query.Text(1),
                    .primary_rank = static_cast<uint32_t>(query.Integer(2)),
                    .local_only = query.Flag(3),
                    .primary_chosen = query.Flag(4),
                    .ranks = static_cast<uint32_t>(query.Integer(5)),
                    .lowest_rank = static_cast<uint32_t>(query.Integer(6)),
                    .live = query.Flag(7),
                    .has_ring = query.Flag(8),
                    .has_rank = query.Flag(9),
                    .has_place = query.Flag(10),
                    .of_start = query.Flag(11),
                    .running = query.Flag(12)});
  }
  RETURN_IF_ERROR(query.status());
  return runs;
}

absl::StatusOr<model::Stream> Store::Attach(const model::Session& session,
                                            const RunAssignment& assignment, int64_t now_us) {
  RETURN_IF_ERROR(CheckInTransaction());
  JobAndRun owner;
  ASSIGN_OR_RETURN(owner.job, FindOrMakeJob(session));
  const absl::StatusOr<int64_t> found = writer_.SelectInteger(
      kSelectStreamId, {owner.job, session.stream.rank, session.stream.incarnation});
  if (found.ok()) {
    ASSIGN_OR_RETURN(const model::Stream stream, ReadStream(writer_, *found));
    if (stream.state == StreamState::kFinished) return stream;
    // The rank was told that these rows are durable, and no longer has them.
    if (session.first_seq > stream.durable_seq + 1) {
      RETURN_IF_ERROR(SkipTo(stream.id, session.first_seq - 1));
    }
    RETURN_IF_ERROR(SkipItemsTo(stream.id, session.first_item - 1));
    if (stream.state == StreamState::kLive) return ReadStream(writer_, stream.id);
    RETURN_IF_ERROR(
        Write("UPDATE stream SET state = ?2, exit_code = 0, reason = ?3, ended_us = 0 "
              "WHERE id = ?1",
              {stream.id, static_cast<int64_t>(StreamState::kLive), session.unnamed}));
    RETURN_IF_ERROR(Reopen(stream.run));
    return ReadStream(writer_, stream.id);
  }
  if (!absl::IsNotFound(found.status())) return found.status();
  ASSIGN_OR_RETURN(owner.run, FindOrMakeRun(session.stream.project, owner.job, assignment, now_us));
  ASSIGN_OR_RETURN(owner.start, FindOrMakeStart(session, assignment));
  RETURN_IF_ERROR(Reopen(owner.run));
  ASSIGN_OR_RETURN(const int64_t id, MakeStream(owner, session, assignment.primary, now_us));
  return ReadStream(writer_, id);
}

absl::StatusOr<int64_t> Store::FindOrMakeJob(const model::Session& session) {
  const absl::StatusOr<int64_t> found =
      writer_.SelectInteger("SELECT id FROM job WHERE project = ?1 AND job_id = ?2",
                            {session.stream.project, session.stream.job_id});
  if (found.ok()) {
    if (!session.attached && session.peer.empty()) RETURN_IF_ERROR(MergeSettings(*found, session));
    return *found;
  }
  if (!absl::IsNotFound(found.status())) return found.status();
  RETURN_IF_ERROR(
      Write("INSERT INTO job(project, job_id, settings_rank, settings) VALUES(?1, ?2, ?3, ?4)",
            {session.stream.project, session.stream.job_id, session.stream.rank,
             Parameter::Blob(EncodeSettings(session.settings))}));
  return writer_.last_insert_id();
}

absl::StatusOr<int64_t> Store::FindOrMakeRun(const std::string& project, int64_t job,
                                             const RunAssignment& assignment, int64_t now_us) {
  int64_t run = assignment.run;
  if (run == 0) {
    ASSIGN_OR_RETURN(run, FindRun(project, job, assignment));
  }
  if (run != 0) {
    if (assignment.primary_chosen) RETURN_IF_ERROR(ChoosePrimary(run, assignment).status());
    if (assignment.primary) {
      RETURN_IF_ERROR(
          Write("UPDATE run SET name = iif(?2 = ?5, run_id, ?2), primary_rank = ?3, "
                "local_only = ?4 WHERE id = ?1",
                {run, assignment.name, assignment.primary_rank, assignment.local_only,
                 assignment.run_id}));
    }
    return run;
  }
  ASSIGN_OR_RETURN(const std::string run_id, FreeRunId(project, job, /*run=*/0, assignment));
  RETURN_IF_ERROR(
      Write("INSERT INTO run(id, job, run_id, name, primary_rank, local_only, state, started_us, "
            "primary_chosen) "
            "VALUES(1 + max((SELECT coalesce(max(id), 0) FROM run), "
            "(SELECT coalesce(max(id), 0) FROM removed_run)), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            {job, run_id, assignment.name == assignment.run_id ? run_id : assignment.name,
             assignment.primary_rank, assignment.local_only,
             static_cast<int64_t>(RunState::kRunning), now_us, assignment.primary_chosen}));
  return writer_.last_insert_id();
}

absl::StatusOr<int64_t> Store::FindRun(const std::string& project, int64_t job,
                                       const RunAssignment& assignment) {
  std::vector<std::pair<int64_t, std::string>> parts;  // runs that were local only until now
  {
    Query query = writer_.Select(
        "SELECT id, run_id, local_only FROM run WHERE job = ?1 "
        "AND (run_id = ?2 OR primary_rank = ?3) ORDER BY run_id",
        {job, assignment.run_id, assignment.primary_rank});
    while (query.Next()) {
      std::string run_id = query.Text(1);
      if (!model::IsNumbered(run_id, assignment.run_id)) continue;
      if (!query.Flag(2) || assignment.local_only) return query.Integer(0);
      parts.emplace_back(query.Integer(0), std::move(run_id));
    }
    RETURN_IF_ERROR(query.status());
  }
  for (const auto& [run, run_id] : parts) {
    ASSIGN_OR_RETURN(const bool free, IsFree(project, job, run_id));
    if (free) return run;
  }
  return 0;
}

absl::StatusOr<bool> Store::ChoosePrimary(int64_t run, const RunAssignment& assignment) {
  RETURN_IF_ERROR(CheckInTransaction());
  std::string project;
  int64_t job = 0;
  {
    Query query = writer_.Select(
        "SELECT primary_chosen, project, job FROM run JOIN job ON job.id = run.job "
        "WHERE run.id = ?1",
        {run});
    if (!query.Next()) {
      RETURN_IF_ERROR(query.status());
      return absl::NotFoundError(absl::StrCat("no run in the store has the id ", run));
    }
    if (query.Flag(0)) return false;
    project = query.Text(1);
    job = query.Integer(2);
  }
  ASSIGN_OR_RETURN(const std::string run_id, FreeRunId(project, job, run, assignment));
  RETURN_IF_ERROR(
      Write("UPDATE run SET run_id = ?2, name = ?3, primary_rank = ?4, local_only = ?5, "
            "primary_chosen = 1 WHERE id = ?1",
            {run, run_id, assignment.name == assignment.run_id ? run_id : assignment.name,
             assignment.primary_rank, assignment.local_only}));
  RETURN_IF_ERROR(Write("UPDATE stream SET is_primary = (rank = ?2) WHERE run = ?1",
                        {run, assignment.primary_rank}));
  streams_.clear();  // from now on, blobs are sealed with the owner
  return true;
}

absl::Status Store::Reopen(int64_t run) {
  RETURN_IF_ERROR(
      Write("UPDATE run SET state = ?2, exit_code = 0, reason = '', ended_us = 0 "
            "WHERE id = ?1 AND state <> ?2",
            {run, static_cast<int64_t>(RunState::kRunning)}));
  if (writer_.changed_rows() == 0) return absl::OkStatus();
  return Write("UPDATE delivery SET complete = 0 WHERE run = ?1 AND kind <> 'local'", {run});
}

}  // namespace ranklog::storage
