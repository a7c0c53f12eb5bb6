// Streams that are joined across nodes: those that this daemon sends, and those that it has from
// others.

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {

absl::StatusOr<model::Stream> Store::StreamOfRing(const model::StreamKey& key) {
  RETURN_IF_ERROR(CheckInTransaction());
  return ReadStreamOfRing(writer_, key);
}

absl::StatusOr<Store::HomeRun> Store::HomeRunOf(const std::string& project,
                                                const std::string& job_id) {
  RETURN_IF_ERROR(CheckInTransaction());
  Query query = writer_.Select(
      "SELECT run.id, run_id, state FROM job JOIN run ON run.job = job.id WHERE project = ?1 "
      "AND job_id = ?2 AND primary_rank = 0 AND primary_chosen AND NOT local_only "
      "ORDER BY run.id DESC LIMIT 1",
      {project, job_id});
  if (query.Next()) {
    const bool running = query.Integer(2) == static_cast<int64_t>(model::RunState::kRunning);
    return HomeRun{query.Integer(0), query.Text(1), running};
  }
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError("rank 0 has not attached");
}

absl::StatusOr<Store::PeerStream> Store::GetPeerStream(int64_t stream) {
  RETURN_IF_ERROR(CheckInTransaction());
  Query query = writer_.Select("SELECT state, late_rows FROM stream WHERE id = ?1", {stream});
  if (query.Next()) {
    const auto live = static_cast<int64_t>(model::StreamState::kLive);
    return PeerStream{.live = query.Integer(0) == live, .late_rows = query.Unsigned(1)};
  }
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError(absl::StrCat("no stream in the store has the id ", stream));
}

absl::Status Store::SetJoined(int64_t stream, uint64_t seq, model::Joined joined,
                              uint64_t late_rows) {
  return WriteOne(
      "UPDATE stream SET joined_seq = max(joined_seq, ?2), joined = max(joined, ?3), joins = 1, "
      "joined_late = max(joined_late, ?4) WHERE id = ?1",
      stream, {stream, seq, static_cast<int64_t>(joined), late_rows});
}

absl::StatusOr<bool> Store::EndPeers(int64_t run, absl::Span<const int64_t> streams,
                                     absl::string_view reason, int64_t now_us) {
  RETURN_IF_ERROR(CheckInTransaction());
  const auto live = static_cast<int64_t>(model::StreamState::kLive);
  ASSIGN_OR_RETURN(const int64_t own,
                   writer_.SelectInteger("SELECT EXISTS(SELECT 1 FROM stream WHERE run = ?1 "
                                         "AND peer = '' AND state = ?2)",
                                         {run, live}));
  if (own != 0) return false;
  for (const int64_t stream : streams) {
    RETURN_IF_ERROR(
        EndStream(stream, model::StreamState::kFinished, /*exit_code=*/0, reason, now_us));
  }
  return true;
}

}  // namespace ranklog::storage
