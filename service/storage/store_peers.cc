// Streams that are joined across nodes: those that this daemon sends, and those that it has from
// others.

#include "service/base/status_macros.h"
#include "service/storage/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {

absl::StatusOr<model::Stream> Store::StreamOfRing(const model::StreamKey& key) {
  RETURN_IF_ERROR(CheckInTransaction());
  return ReadStreamOfRing(writer_, key);
}

absl::StatusOr<bool> Store::IsLive(int64_t stream) {
  RETURN_IF_ERROR(CheckInTransaction());
  ASSIGN_OR_RETURN(const int64_t state,
                   writer_.SelectInteger("SELECT state FROM stream WHERE id = ?1", {stream}));
  return state == static_cast<int64_t>(model::StreamState::kLive);
}

absl::StatusOr<bool> Store::TakesRank(const model::Session& session, const std::string& job_id,
                                      int64_t run) {
  RETURN_IF_ERROR(CheckInTransaction());
  ASSIGN_OR_RETURN(
      const int64_t takes,
      writer_.SelectInteger(
          "SELECT coalesce((SELECT job_id FROM start WHERE project = ?1 AND given_id = ?2 "
          "ORDER BY id DESC LIMIT 1) = ?3, 0) "
          "AND EXISTS(SELECT 1 FROM run WHERE id = ?4 AND state = ?6) "
          "AND NOT EXISTS(SELECT 1 FROM stream WHERE run = ?4 AND rank = ?5)",
          {session.stream.project, session.launch.given_id, job_id, run, session.stream.rank,
           static_cast<int64_t>(model::RunState::kRunning)}));
  return takes != 0;
}

absl::Status Store::SetJoined(int64_t stream, uint64_t seq, model::Joined joined) {
  return WriteOne(
      "UPDATE stream SET joined_seq = max(joined_seq, ?2), joined = max(joined, ?3) "
      "WHERE id = ?1",
      stream, {stream, seq, static_cast<int64_t>(joined)});
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
