#include "service/ingest/orphans.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/base/status_macros.h"
#include "service/ingest/convert.h"
#include "service/ingest/drain.h"

namespace ranklog::ingest {

bool Orphans::EndGone(const LiveStream& live) {
  const std::string how = live.peer != nullptr ? live.peer->how_it_ended() : "";
  const std::string who = absl::StrCat("rank ", live.key.rank, " (pid ", live.pid, ") ",
                                       how.empty() ? "ended" : how, " without Finish()");
  if (live.ring == nullptr) {
    return End(live, nullptr, absl::StrCat(who, "; its spool could not be read"));
  }
  absl::StatusOr<RingReader> ring = RingReader::Open(live.ring->fd());
  if (ring.ok() && ring->incarnation() != live.key.incarnation) {
    ring = absl::DataLossError("it is another rank's spool");
  }
  if (!ring.ok()) {
    ++context_.counters->damaged_rings;
    if (!End(live, nullptr,
             absl::StrCat(who, "; its spool: ", std::string(ring.status().message())))) {
      return false;
    }
    live.ring->SetAside();
    return true;
  }
  absl::StatusOr<Drained> drained = DrainRing(*ring, live.id, *context_.store, context_.wall_clock);
  if (!drained.ok()) return false;
  ++context_.counters->orphans;
  context_.counters->orphan_rows += drained->rows;
  std::string reason = who;
  if (absl::IsResourceExhausted(drained->damage)) ++context_.counters->refused_shapes;
  if (!drained->damage.ok()) {
    absl::StrAppend(&reason, "; ", std::string(drained->damage.message()));
  }
  if (!End(live, &*ring, reason)) return false;
  if (drained->damage.ok()) {
    live.ring->Unlink();
  } else {
    ++context_.counters->damaged_rings;
    live.ring->SetAside();
  }
  return true;
}

bool Orphans::End(const LiveStream& live, const RingReader* ring, const std::string& reason) {
  const bool finished = ring != nullptr && ring->finished();
  const absl::Status ended = context_.store->SubmitAndWait([&](storage::Store& store) {
    return store.EndStream(live.id,
                           finished ? model::StreamState::kFinished : model::StreamState::kCrashed,
                           finished ? ring->exit_code() : 0, finished ? "" : reason,
                           absl::ToUnixMicros(context_.wall_clock()));
  });
  if (!ended.ok()) {
    spdlog::error("cannot end the stream of rank {} of {}: {}", live.key.rank, live.key.job_id,
                  ended.ToString());
    return false;
  }
  context_.registry->Remove(live.key);
  context_.run_changed(live.run);
  if (finished) {
    spdlog::info("rank {} of {} finished with exit code {}; the rest came from its spool",
                 live.key.rank, live.key.job_id, ring->exit_code());
  } else {
    spdlog::warn("{} of {}", reason, live.key.job_id);
  }
  return true;
}

absl::Status Orphans::Adopt(const std::shared_ptr<const RingFile>& file, const RingReader& ring) {
  v1::Hello hello;
  if (!hello.ParseFromString(ring.hello())) return absl::DataLossError("its Hello is unreadable");
  ASSIGN_OR_RETURN(model::Session session, ToSession(hello));
  if (session.stream.incarnation != ring.incarnation()) {
    return absl::DataLossError("its Hello is of another ring");
  }
  if (Known(session.stream, ring)) {
    file->Unlink();
    return absl::OkStatus();
  }
  session.first_seq = ring.FirstSeq();
  ResolveDestinations(context_.credentials, &session.settings);
  model::Stream stream;
  RETURN_IF_ERROR(context_.store->SubmitAndWait([&](storage::Store& store) {
    ASSIGN_OR_RETURN(stream, context_.attacher->Attach(session, store));
    return absl::OkStatus();
  }));
  context_.run_attached(stream.run);
  LiveStream live{.key = stream.key,
                  .id = stream.id,
                  .run = stream.run,
                  .pid = stream.identity.pid,
                  .ring = file,
                  .peer = nullptr};
  return EndGone(live) ? absl::OkStatus() : absl::UnavailableError("the store is closing");
}

bool Orphans::Known(const model::StreamKey& key, const RingReader& ring) {
  const absl::StatusOr<std::vector<model::Run>> runs = reader_->Runs();
  if (!runs.ok()) return false;
  for (const model::Run& run : *runs) {
    if (run.project != key.project) continue;
    const absl::StatusOr<std::vector<model::Stream>> streams = reader_->Streams(run.id);
    if (!streams.ok()) return false;
    for (const model::Stream& stream : *streams) {
      if (stream.key != key) continue;
      return stream.state != model::StreamState::kLive && stream.durable_seq >= ring.rows();
    }
  }
  return false;
}

}  // namespace ranklog::ingest
