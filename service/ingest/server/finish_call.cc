#include "service/ingest/server/finish_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/ingest/ring/convert.h"
#include "service/ingest/ring/spool_reader.h"

namespace ranklog::ingest {
namespace {

// Whether the process may still be about to end. Its Run was finished by the destructor, so main()
// may be about to return an exit code. If the process ends, RankWatch ends the stream with that
// code. If the process continues for longer, the run has finished.
bool MayStillEnd(const IngestContext* context, const LiveStream& live) {
  constexpr absl::Duration kLastMoments = absl::Seconds(2);
  if (live.ring == nullptr || live.peer == nullptr || !live.peer->pidfd.valid()) return false;
  const absl::StatusOr<SpoolReader> ring = SpoolReader::Open(live.ring->fd());
  return ring.ok() && ring->destroyed() &&
         SteadyNow() - context->registry->SetDestroyed(live.key) < kLastMoments;
}

// OK if the stream has ended: the answer to the first Finish() may have been lost.
absl::Status CheckEnded(storage::Store& store, const model::StreamKey& key) {
  const absl::StatusOr<model::Stream> stream = store.StreamOfRing(key);
  if (!stream.ok() && !absl::IsNotFound(stream.status())) return stream.status();
  if (stream.ok() && stream->state != model::StreamState::kLive) return absl::OkStatus();
  return absl::NotFoundError("unknown stream; attach first");
}

}  // namespace

void Finish(const IngestContext* context, const v1::FinishRequest& request, Answer answer) {
  const model::StreamKey key = ToStreamKey(request.stream());
  const absl::optional<LiveStream> live = context->registry->Find(key);
  if (!live) {
    const auto check = [key](storage::Store& store) { return CheckEnded(store, key); };
    return context->store->Submit({.apply = check, .done = std::move(answer), .urgent = true});
  }
  if (request.last_seq() > live->durable_seq) {
    return answer(absl::FailedPreconditionError(absl::StrCat("rows ", live->durable_seq + 1, " to ",
                                                             request.last_seq(),
                                                             " are missing; send them first")));
  }
  if (request.last_item() > live->durable_item) {
    return answer(absl::FailedPreconditionError(absl::StrCat("items ", live->durable_item + 1,
                                                             " to ", request.last_item(),
                                                             " are missing; send them first")));
  }
  if (MayStillEnd(context, *live)) {
    return answer(absl::UnavailableError("the process may be about to exit; try again"));
  }
  const model::Losses losses = ToLosses(request.losses());
  context->store->Submit({.apply =
                              [context, id = live->id, losses,
                               exit_code = request.exit_code()](storage::Store& store) {
                                RETURN_IF_ERROR(store.SetLosses(id, losses));
                                return store.EndStream(id, model::StreamState::kFinished, exit_code,
                                                       /*reason=*/"",
                                                       absl::ToUnixMicros(context->wall_clock()));
                              },
                          .done =
                              [context, key, run = live->run, losses,
                               answer = std::move(answer)](absl::Status status) mutable {
                                if (status.ok()) {
                                  context->registry->Finish(key, losses);
                                  context->run_changed(run);
                                }
                                answer(std::move(status));
                              },
                          .urgent = true});
}

}  // namespace ranklog::ingest
