// The gRPC service that ranks call.

#ifndef SERVICE_INGEST_SERVER_INGEST_SERVICE_H_
#define SERVICE_INGEST_SERVER_INGEST_SERVICE_H_

#include <utility>

#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/ingest/ingest_context.h"

namespace ranklog::ingest {

// Uses reactors of gRPC's callback API: they run on gRPC's threads, without a thread per stream.
// Flow control: while the store is behind, no stream is read, and new rows wait in the ranks'
// rings.
//
// Errors that a rank receives:
//   FAILED_PRECONDITION  another protocol version; a first message that is not a Hello; a second
//                        Hello; Finish before all rows and items arrived
//   INVALID_ARGUMENT     refused by model::Validate or by the store
//   NOT_FOUND            Finish of a stream that never attached, or whose run was removed
//   RESOURCE_EXHAUSTED   more than 4096 live streams, 10,000 shapes of a stream, 1,000,000 keys of
//                        a shape, or 64 MiB of keys of a stream
//   UNAVAILABLE          try again: the daemon is stopping, or it must first handle a former
//                        process of the rank
//
// When a ring attaches again, the newer attachment counts. Rows of the older one count as resent.
class IngestService final : public v1::Ingest::CallbackService {
 public:
  explicit IngestService(IngestContext context) : context_(std::move(context)) {}

  grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>* Attach(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* call,
                                   const v1::FinishRequest* request,
                                   v1::FinishReply* reply) override;

 private:
  const IngestContext context_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_INGEST_SERVICE_H_
