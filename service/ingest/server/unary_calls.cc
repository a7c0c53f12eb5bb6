#include "service/ingest/server/unary_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/ingest/convert.h"
#include "service/ingest/spool_reader.h"

namespace ranklog::ingest {
namespace {

// Answers after the commit of `apply`. If the commit succeeded, calls `then` first.
void AnswerAfterCommit(pipeline::StoreLoop& store,
                       absl::AnyInvocable<absl::Status(storage::Store&)> apply,
                       absl::AnyInvocable<void()> then, size_t bytes, Answer answer) {
  store.Submit(
      {.apply = std::move(apply),
       .done =
           [then = std::move(then), answer = std::move(answer)](absl::Status status) mutable {
             if (status.ok()) then();
             answer(std::move(status));
           },
       .bytes = bytes,
       .urgent = true});
}

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

absl::Status UnknownStream() { return absl::NotFoundError("unknown stream; attach first"); }

}  // namespace

void Update(const IngestContext* context, const v1::UpdateRequest& request, Answer answer) {
  const absl::optional<LiveStream> live = context->registry->Find(ToStreamKey(request.stream()));
  absl::StatusOr<model::Update> update = ToUpdate(request.update());
  if (!update.ok()) {
    ++context->counters->refused_messages;
    return answer(update.status());
  }
  if (!live) return answer(UnknownStream());
  AnswerAfterCommit(
      *context->store,
      [context, id = live->id, update = *std::move(update)](storage::Store& store) {
        return store.Apply(id, update, absl::ToUnixMicros(context->wall_clock()));
      },
      [context, run = live->run] { context->run_changed(run); }, request.ByteSizeLong(),
      std::move(answer));
}

void Finish(const IngestContext* context, const v1::FinishRequest& request, Answer answer) {
  const model::StreamKey key = ToStreamKey(request.stream());
  const absl::optional<LiveStream> live = context->registry->Find(key);
  if (!live) {
    // The answer to the first Finish() may have been lost.
    return answer(context->registry->HasEnded(key) ? absl::OkStatus() : UnknownStream());
  }
  if (request.last_seq() > live->durable_seq) {
    return answer(absl::FailedPreconditionError(absl::StrCat("rows ", live->durable_seq + 1, " to ",
                                                             request.last_seq(),
                                                             " are missing; send them first")));
  }
  if (MayStillEnd(context, *live)) {
    return answer(absl::UnavailableError("the process may be about to exit; try again"));
  }
  const model::Losses losses = ToLosses(request.losses());
  AnswerAfterCommit(
      *context->store,
      [context, id = live->id, losses, exit_code = request.exit_code()](storage::Store& store) {
        RETURN_IF_ERROR(store.SetLosses(id, losses));
        return store.EndStream(id, model::StreamState::kFinished, exit_code, /*reason=*/"",
                               absl::ToUnixMicros(context->wall_clock()));
      },
      [context, key, run = live->run, losses] {
        context->registry->Finish(key, losses);
        context->run_changed(run);
      },
      /*bytes=*/0, std::move(answer));
}

}  // namespace ranklog::ingest
