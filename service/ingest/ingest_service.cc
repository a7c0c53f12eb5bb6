#include "service/ingest/ingest_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/ingest/attach_reactor.h"
#include "service/ingest/convert.h"
#include "service/ingest/status_convert.h"

namespace ranklog::ingest {
namespace {

// Answers a unary call after the commit of `apply`, and then calls `then` if it succeeded.
void AnswerAfterCommit(pipeline::StoreLoop& store, grpc::ServerUnaryReactor* reactor,
                       absl::AnyInvocable<absl::Status(storage::Store&)> apply,
                       absl::AnyInvocable<void()> then, size_t bytes) {
  store.Submit({.apply = std::move(apply),
                .done =
                    [reactor, then = std::move(then)](absl::Status status) mutable {
                      if (status.ok()) then();
                      reactor->Finish(ToGrpc(status));
                    },
                .bytes = bytes,
                .urgent = true});
}

grpc::Status UnknownStream() {
  return grpc::Status(grpc::StatusCode::NOT_FOUND, "no live stream of that name: attach first");
}

}  // namespace

grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>* IngestService::Attach(
    grpc::CallbackServerContext* call) {
  return AttachReactor::Start(&context_, call);
}

grpc::ServerUnaryReactor* IngestService::Update(grpc::CallbackServerContext* call,
                                                const v1::UpdateRequest* request,
                                                v1::UpdateReply*) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  const absl::optional<LiveStream> live = context_.registry->Find(ToStreamKey(request->stream()));
  absl::StatusOr<model::Update> update = ToUpdate(request->update());
  if (!live || !update.ok()) {
    if (!update.ok()) ++context_.counters->refused_messages;
    reactor->Finish(update.ok() ? UnknownStream() : ToGrpc(update.status()));
    return reactor;
  }
  AnswerAfterCommit(
      *context_.store, reactor,
      [id = live->id, update = *std::move(update)](storage::Store& store) {
        return store.Apply(id, update, absl::ToUnixMicros(absl::Now()));
      },
      [this, run = live->run] { context_.run_changed(run); }, request->ByteSizeLong());
  return reactor;
}

grpc::ServerUnaryReactor* IngestService::Finish(grpc::CallbackServerContext* call,
                                                const v1::FinishRequest* request,
                                                v1::FinishReply*) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  const model::StreamKey key = ToStreamKey(request->stream());
  const absl::optional<LiveStream> live = context_.registry->Find(key);
  if (!live) {
    // The first time may have been answered to nobody.
    reactor->Finish(context_.registry->HasEnded(key) ? grpc::Status::OK : UnknownStream());
    return reactor;
  }
  if (request->last_seq() > live->durable_seq) {
    reactor->Finish(ToGrpc(absl::FailedPreconditionError(
        absl::StrCat("rows ", live->durable_seq + 1, " to ", request->last_seq(),
                     " are missing: send them first"))));
    return reactor;
  }
  AnswerAfterCommit(
      *context_.store, reactor,
      [id = live->id, losses = ToLosses(request->losses()),
       exit_code = request->exit_code()](storage::Store& store) {
        RETURN_IF_ERROR(store.SetLosses(id, losses));
        return store.EndStream(id, model::StreamState::kFinished, exit_code, /*reason=*/"",
                               absl::ToUnixMicros(absl::Now()));
      },
      [this, key, run = live->run] {
        context_.registry->Remove(key);
        context_.run_changed(run);
      },
      /*bytes=*/0);
  return reactor;
}

}  // namespace ranklog::ingest
