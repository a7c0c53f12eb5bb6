#include "service/ingest/server/finish_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/ingest/ring/convert.h"

namespace ranklog::ingest {
namespace {

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
