// How a session joins the store: its job, its run, its stream, and the stream's attempt.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/this_boot.h"
#include "service/storage/rows/documents.h"
#include "service/storage/rows/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

using model::RunState;
using model::StreamState;

constexpr char kSelectStreamId[] =
    "SELECT id FROM stream WHERE job = ?1 AND rank = ?2 AND incarnation = ?3";

// Whether a stream's process called Init() after the session's (?4 init_us, ?5 boot_id, ?6
// began_us; ?7 is this boot). The wall clock is used last, because somebody may have set it in
// between.
constexpr char kBeganLater[] =
    "CASE WHEN boot_id = ?5 AND ?5 <> '' THEN began_us > ?6 "
    "WHEN boot_id = ?7 AND ?7 <> '' THEN 1 "
    "WHEN ?5 = ?7 AND ?7 <> '' THEN 0 ELSE init_us > ?4 END";

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

// Another ring of the same Init(), including those of forked children, belongs to the same attempt.
// A new stream may begin the next attempt if the primary rank has no live stream. It does if its
// rank took part in the newest attempt and has ended, or if that attempt belongs to another start.
// If the ring of a dead process is found after a later process of its rank has attached, the run is
// not rewound.
absl::StatusOr<Store::Beginning> Store::BeginningOf(int64_t run, const model::Session& session,
                                                    bool primary) {
  const uint32_t rank = session.stream.rank;
  const auto live = static_cast<int64_t>(StreamState::kLive);
  {
    Query same = writer_.Select(
        "SELECT attempt, began_anew FROM stream WHERE run = ?1 AND rank = ?2 AND node = ?3 "
        "AND init_us = ?4 AND init_us <> 0 ORDER BY id DESC LIMIT 1",
        {run, rank, session.identity.node, session.settings.start_time_us});
    if (same.Next()) return Beginning{same.Integer(0), same.Flag(1)};
    RETURN_IF_ERROR(same.status());
  }
  if (session.left) {
    Query later = writer_.Select(
        absl::StrCat("SELECT attempt FROM stream WHERE run = ?1 AND rank = ?2 AND node = ?3 AND ",
                     kBeganLater, " ORDER BY attempt LIMIT 1"),
        {run, rank, session.identity.node, session.settings.start_time_us, session.identity.boot_id,
         session.identity.began_us, ThisBoot()});
    if (later.Next()) return Beginning{std::max<int64_t>(later.Integer(0) - 1, 0), false};
    RETURN_IF_ERROR(later.status());
  }
  struct Newest {
    int64_t attempt = 0;  // 0: the rank has no stream
    bool live = false;
  };
  // Each condition has an index, because a run across nodes may have thousands of streams.
  const auto newest_of = [&](const char* condition) -> absl::StatusOr<Newest> {
    // Without a stream both columns are NULL, which reads as 0.
    Query query = writer_.Select(
        absl::StrCat("SELECT max(attempt), max(state = ?3), ?2 FROM stream WHERE run = ?1 AND ",
                     condition),
        {run, rank, live});
    query.Next();
    RETURN_IF_ERROR(query.status());
    return Newest{query.Integer(0), query.Flag(1)};
  };
  ASSIGN_OR_RETURN(const Newest own, newest_of("rank = ?2"));
  Newest leader = own;
  if (!primary) {
    ASSIGN_OR_RETURN(const Newest first, newest_of("is_primary"));
    if (first.attempt > 0) leader = first;
  }
  const bool took_part = own.attempt > 0 && own.attempt == leader.attempt && !own.live;
  const model::Launch& launch = session.launch;
  ASSIGN_OR_RETURN(
      const int64_t led_by_other_start,
      writer_.SelectInteger(
          absl::StrCat("SELECT count(*) FROM stream JOIN start ON start.id = stream.start "
                       "WHERE run = ?1 AND is_primary AND attempt = ?10 AND NOT ",
                       SameStartCondition()),
          {run, session.settings.start_time_us, session.identity.boot_id, session.identity.began_us,
           launch.id, launch.restart, launch.requeue, launch.unseen, session.identity.world_size,
           leader.attempt}));
  // Another node's launcher has another launch, also in the same start.
  const bool other_start = led_by_other_start > 0 && !launch.id.empty() && session.peer.empty();
  const bool next = !leader.live && (took_part || other_start);
  Beginning beginning;
  beginning.attempt = std::max<int64_t>(leader.attempt + (next ? 1 : 0), 1);
  beginning.anew = took_part && leader.live;
  return beginning;
}

absl::StatusOr<int64_t> Store::MakeStream(const JobAndRun& owner, const model::Session& session,
                                          bool primary, int64_t now_us) {
  const model::Identity& identity = session.identity;
  // If the clock was set back, the end of the rank's earlier process still gives the order.
  ASSIGN_OR_RETURN(const int64_t last_end,
                   writer_.SelectInteger("SELECT coalesce(max(ended_us), 0) FROM stream "
                                         "WHERE run = ?1 AND rank = ?2",
                                         {owner.run, session.stream.rank}));
  // A ring that attaches again after its run was removed: its rows up to this one were delivered.
  ASSIGN_OR_RETURN(const int64_t removed,
                   writer_.SelectInteger("SELECT coalesce(max(durable_seq), 0) FROM removed_stream "
                                         "WHERE incarnation = ?1 AND rank = ?2",
                                         {session.stream.incarnation, session.stream.rank}));
  const uint64_t gone = std::max(session.first_seq - 1, static_cast<uint64_t>(removed));
  ASSIGN_OR_RETURN(
      const int64_t removed_items,
      writer_.SelectInteger("SELECT coalesce(max(durable_item), 0) FROM removed_stream "
                            "WHERE incarnation = ?1 AND rank = ?2",
                            {session.stream.incarnation, session.stream.rank}));
  const uint64_t gone_items =
      std::max(session.first_item - 1, static_cast<uint64_t>(removed_items));
  // A ring of a process that has other rings continues in their steps. They may have ended: that of
  // a forked child is often found after its parent's Finish().
  ASSIGN_OR_RETURN(const int64_t begun,
                   writer_.SelectInteger(
                       "SELECT coalesce((SELECT max(begun_step) FROM stream WHERE run = ?1 "
                       "AND rank = ?2 AND (state = ?3 OR process = nullif(?4, ''))), last_step) "
                       "FROM run WHERE id = ?1",
                       {owner.run, session.stream.rank, static_cast<int64_t>(StreamState::kLive),
                        session.launch.process}));
  ASSIGN_OR_RETURN(const Beginning beginning, BeginningOf(owner.run, session, primary));
  RETURN_IF_ERROR(Write(
      "INSERT INTO stream(id, run, job, rank, incarnation, is_primary, local_rank, world_size, "
      "local_world_size, node_rank, node, pid, thread, client_version, state, started_us, "
      "durable_seq, aggregated_seq, lost_with_store, begun_step, start, process, attempt, "
      "began_anew, init_us, began_us, boot_id, reason, durable_item, lost_items, peer) VALUES("
      "1 + max((SELECT coalesce(max(id), 0) FROM stream), "
      "(SELECT coalesce(max(id), 0) FROM removed_stream)), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
      "?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16, ?16, ?17, ?18, ?19, ?20, ?21, ?22, "
      "?23, ?24, ?25, ?26, ?26, ?27)",
      {owner.run,
       owner.job,
       session.stream.rank,
       session.stream.incarnation,
       primary,
       identity.local_rank,
       identity.world_size,
       identity.local_world_size,
       identity.node_rank,
       identity.node,
       identity.pid,
       identity.thread,
       identity.client_version,
       static_cast<int64_t>(StreamState::kLive),
       std::max(now_us, last_end),
       gone,
       begun,
       owner.start,
       session.launch.process,
       beginning.attempt,
       beginning.anew,
       session.settings.start_time_us,
       identity.began_us,
       identity.boot_id,
       session.unnamed,
       gone_items,
       session.peer}));
  return writer_.last_insert_id();
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
