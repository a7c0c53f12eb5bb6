// A new stream, and the attempt of its run that it belongs to.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/this_boot.h"
#include "service/storage/rows/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

// Whether a stream's process called Init() after the session's (?4 init_us, ?5 boot_id, ?6
// began_us; ?7 is this boot). The wall clock is used last, because somebody may have set it in
// between.
constexpr char kBeganLater[] =
    "CASE WHEN boot_id = ?5 AND ?5 <> '' THEN began_us > ?6 "
    "WHEN boot_id = ?7 AND ?7 <> '' THEN 1 "
    "WHEN ?5 = ?7 AND ?7 <> '' THEN 0 ELSE init_us > ?4 END";

}  // namespace

// Another ring of the same Init(), including those of forked children, belongs to the same attempt.
// A new stream may begin the next attempt if the primary rank has no live stream. It does if its
// rank took part in the newest attempt and has ended, or if that attempt belongs to another start.
// If the ring of a dead process is found after a later process of its rank has attached, the run is
// not rewound.
absl::StatusOr<Store::Beginning> Store::BeginningOf(int64_t run, const model::Session& session,
                                                    bool primary) {
  const uint32_t rank = session.stream.rank;
  const auto live = static_cast<int64_t>(model::StreamState::kLive);
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
                       {owner.run, session.stream.rank,
                        static_cast<int64_t>(model::StreamState::kLive), session.launch.process}));
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
       static_cast<int64_t>(model::StreamState::kLive),
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

}  // namespace ranklog::storage
