#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

using model::StreamState;

// The facts about the jobs that come from their streams. Each is looked up in an index, because a run
// across nodes may have thousands of streams.
constexpr char kSelectJobs[] =
    "WITH given(job_id, first) AS ("
    "SELECT job_id, min(id) FROM start WHERE project = ?1 AND given_id = ?2 GROUP BY job_id "
    "UNION ALL SELECT ?2, 0 WHERE NOT EXISTS ("
    "SELECT 1 FROM start WHERE project = ?1 AND given_id = ?2 AND job_id = ?2)) "
    "SELECT given.job_id, given.first <> 0 OR job.id IS NOT NULL, coalesce(job.id, 0), "
    "EXISTS(SELECT 1 FROM run CROSS JOIN stream ON stream.run = run.id "
    "WHERE run.job = job.id AND run.state = ?7 AND stream.state = ?6), "
    "EXISTS(SELECT 1 FROM stream WHERE job = job.id AND rank = ?3 AND incarnation = ?4), "
    "EXISTS(SELECT 1 FROM stream WHERE job = job.id AND rank = ?3 AND process = ?5), "
    "EXISTS(SELECT 1 FROM stream WHERE job = job.id AND rank = ?3 AND process <> ?5), "
    "EXISTS(SELECT 1 FROM stream WHERE job = job.id AND rank = 0 AND state = ?6 AND peer = '') "
    "FROM given LEFT JOIN job ON job.project = ?1 AND job.job_id = given.job_id "
    "ORDER BY given.first";

std::string NodeOf(const model::Identity& identity) {
  return absl::StrCat(identity.node, "/", identity.node_rank);
}

// A Launch::batch_job without its step.
std::string BatchOf(const std::string& batch_job) {
  return batch_job.substr(0, batch_job.find('.'));
}

// Adds the facts about other processes of the session's rank in this job.
absl::Status AddOtherProcesses(Database& database, int64_t job, const model::Session& session,
                               model::JobStart* start) {
  Query query = database.Select(
      "SELECT stream.process, stream.state, stream.pid, start.restart, start.launch, "
      "stream.reason FROM stream "
      "LEFT JOIN start ON start.id = stream.start "
      "WHERE stream.job = ?1 AND stream.rank = ?2 AND stream.process <> ?3 "
      "ORDER BY stream.id DESC",
      {job, session.stream.rank, session.launch.process});
  std::string last;
  for (bool first = true; query.Next(); first = false) {
    if (first) {
      last = query.Text(0);
      start->rank_finished = true;
      start->rank_restart = static_cast<uint32_t>(query.Integer(3));
    }
    start->rank_in_launch |= query.Text(4) == session.launch.id;
    const auto state = static_cast<StreamState>(query.Integer(1));
    const bool finished = state == StreamState::kFinished && query.Text(5) != model::kNotHeardOf;
    if (query.Text(0) == last && !finished) start->rank_finished = false;
    if (state != StreamState::kLive) continue;
    if (model::AreOfOneProcess(query.Text(0), session.launch.process)) continue;
    start->rank_alive = true;
    start->alive_pid = query.Integer(2);
  }
  return query.status();
}

// Whether the session and a job's streams may be of one launch, judged by their times.
absl::StatusOr<bool> MayBeOne(Database& database, int64_t job, const model::Session& session) {
  ASSIGN_OR_RETURN(
      const int64_t may_be,
      database.SelectInteger(
          absl::StrCat("SELECT coalesce(min(stream.state = ?5 AND exit_code = 0 "
                       "AND start.flags & ",
                       kUnseen, " AND world_size = ?6), 0) AND max(", kBeganTogether,
                       ") FROM stream JOIN start ON start.id = stream.start WHERE job = ?1"),
          {job, session.settings.start_time_us, session.identity.boot_id, session.identity.began_us,
           static_cast<int64_t>(StreamState::kFinished), session.identity.world_size}));
  return may_be != 0;
}

}  // namespace

absl::StatusOr<std::vector<model::JobStart>> Store::StartsOf(const model::Session& session) {
  RETURN_IF_ERROR(CheckInTransaction());
  const model::Launch& launch = session.launch;
  std::vector<model::JobStart> starts;
  std::vector<int64_t> jobs;
  {
    Query query =
        writer_.Select(kSelectJobs, {session.stream.project, launch.given_id, session.stream.rank,
                                     session.stream.incarnation, launch.process,
                                     static_cast<int64_t>(StreamState::kLive),
                                     static_cast<int64_t>(model::RunState::kRunning)});
    while (query.Next()) {
      starts.push_back({.job_id = query.Text(0),
                        .exists = query.Flag(1),
                        .live = query.Flag(3),
                        .first_alive = query.Flag(7),
                        .has_ring = query.Flag(4),
                        .has_process = query.Flag(5),
                        .has_rank = query.Flag(6)});
      jobs.push_back(query.Integer(2));
    }
    RETURN_IF_ERROR(query.status());
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    if (starts[i].has_rank) {
      RETURN_IF_ERROR(AddOtherProcesses(writer_, jobs[i], session, &starts[i]));
    } else if (launch.unseen && jobs[i] != 0) {
      ASSIGN_OR_RETURN(starts[i].may_be_one, MayBeOne(writer_, jobs[i], session));
    }
  }
  absl::flat_hash_map<std::string, model::JobStart*> by_id;
  for (model::JobStart& start : starts) by_id.emplace(start.job_id, &start);
  std::map<std::string, std::set<std::string>> own_launches, other_launches;  // by job
  Query query = writer_.Select(
      "SELECT job_id, refused, launch, batch_job, requeue, node, flags FROM start "
      "WHERE project = ?1 AND given_id = ?2",
      {session.stream.project, launch.given_id});
  while (query.Next()) {
    const auto found = by_id.find(query.Text(0));
    if (found == by_id.end()) continue;
    model::JobStart* const start = found->second;
    const bool of_peer = (query.Integer(6) & kOfPeer) != 0;
    (of_peer ? other_launches : own_launches)[query.Text(0)].insert(query.Text(2));
    // Where the ranks of other nodes went was a guess, which must not decide for those of this node.
    if (of_peer && session.peer.empty()) continue;
    start->refused |= query.Flag(1);
    if (query.Text(2) == launch.id) {
      start->has_launch = true;
    } else if (query.Text(5) == NodeOf(session.identity)) {
      start->has_node = true;
    }
    if (launch.batch_job.empty()) continue;
    start->has_batch |= BatchOf(query.Text(3)) == BatchOf(launch.batch_job);
    if (query.Text(3) != launch.batch_job) continue;
    start->has_batch_job = true;
    start->requeue = std::max(start->requeue, static_cast<uint32_t>(query.Integer(4)));
  }
  RETURN_IF_ERROR(query.status());
  for (const auto& [job_id, launches] : own_launches) {
    const std::set<std::string>& others = other_launches[job_id];
    by_id[job_id]->spans_nodes =
        std::any_of(launches.begin(), launches.end(),
                    [&others](const std::string& id) { return others.contains(id); });
  }
  return starts;
}

absl::StatusOr<std::string> Store::FreeJobId(const model::Session& session) {
  RETURN_IF_ERROR(CheckInTransaction());
  const std::string& project = session.stream.project;
  for (uint64_t next = 2;; ++next) {
    std::string job_id = model::WithNumber(session.launch.given_id, next);
    ASSIGN_OR_RETURN(
        const int64_t taken,
        writer_.SelectInteger("SELECT EXISTS(SELECT 1 FROM job WHERE project = ?1 AND job_id = ?2) "
                              "OR EXISTS(SELECT 1 FROM start WHERE project = ?1 AND job_id = ?2)",
                              {project, job_id}));
    if (taken != 0) continue;
    if (session.settings.strategy != model::LogStrategy::kMain) return job_id;
    ASSIGN_OR_RETURN(const bool free, IsFree(project, /*job=*/0, job_id));
    if (free) return job_id;
  }
}

absl::StatusOr<bool> Store::IsFree(const std::string& project, int64_t job,
                                   const std::string& run_id) {
  ASSIGN_OR_RETURN(
      const int64_t taken,
      writer_.SelectInteger("SELECT EXISTS(SELECT 1 FROM run CROSS JOIN job ON job.id = run.job "
                            "WHERE run_id = ?3 AND project = ?1 AND job.id <> ?2 "
                            "AND NOT local_only) "
                            "OR EXISTS(SELECT 1 FROM removed_run "
                            "WHERE run_id = ?3 AND project = ?1 AND job_id <> '' "
                            "AND job_id NOT IN (SELECT job_id FROM job WHERE id = ?2))",
                            {project, job, run_id}));
  return taken == 0;
}

absl::StatusOr<std::string> Store::FreeRunId(const std::string& project, int64_t job, int64_t run,
                                             const RunAssignment& assignment) {
  std::string run_id = assignment.run_id;
  for (uint64_t next = 2;; ++next) {
    ASSIGN_OR_RETURN(const int64_t taken,
                     writer_.SelectInteger("SELECT EXISTS(SELECT 1 FROM run WHERE job = ?1 "
                                           "AND run_id = ?2 AND id <> ?3)",
                                           {job, run_id, run}));
    bool free = taken == 0;
    if (free && !assignment.local_only) {
      ASSIGN_OR_RETURN(free, IsFree(project, job, run_id));
    }
    if (free) return run_id;
    run_id = model::WithNumber(assignment.run_id, next);
  }
}

absl::StatusOr<int64_t> Store::FindOrMakeStart(const model::Session& session,
                                               const RunAssignment& assignment) {
  const model::Launch& launch = session.launch;
  if (launch.given_id.empty()) return 0;
  const std::string node = NodeOf(session.identity);
  const absl::StatusOr<int64_t> found = writer_.SelectInteger(
      "SELECT id FROM start WHERE project = ?1 AND given_id = ?2 AND job_id = ?3 AND launch = ?4 "
      "AND restart = ?5 AND requeue = ?6 AND node = ?7",
      {session.stream.project, launch.given_id, session.stream.job_id, launch.id, launch.restart,
       launch.requeue, node});
  if (found.ok() && session.settings.resume != "must") {
    // A job that is started by hand again has the same launch. The thing that it waited for may
    // exist now.
    RETURN_IF_ERROR(Write("UPDATE start SET flags = flags & ~?2 WHERE id = ?1 AND flags & ?2",
                          {*found, kMust}));
  }
  if (found.ok() && session.peer.empty()) {
    RETURN_IF_ERROR(Write("UPDATE start SET flags = flags & ~?2 WHERE id = ?1 AND flags & ?2",
                          {*found, kOfPeer}));
  }
  if (!absl::IsNotFound(found.status())) return found;
  RETURN_IF_ERROR(
      Write("INSERT INTO start(project, given_id, job_id, launch, restart, batch_job, requeue, "
            "node, flags, refused, notice) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            {session.stream.project, launch.given_id, session.stream.job_id, launch.id,
             launch.restart, launch.batch_job, launch.requeue, node,
             LaunchFlags(launch) | (session.settings.resume == "must" ? kMust : 0) |
                 (assignment.warns ? kWarns : 0) | (session.peer.empty() ? 0 : kOfPeer),
             assignment.refused, assignment.notice}));
  return writer_.last_insert_id();
}

}  // namespace ranklog::storage
