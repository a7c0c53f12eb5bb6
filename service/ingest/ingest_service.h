// The gRPC services that ranks and tools call.

#ifndef SERVICE_INGEST_INGEST_SERVICE_H_
#define SERVICE_INGEST_INGEST_SERVICE_H_

#include <utility>

#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/ingest/ingest_context.h"

namespace ranklog::ingest {

// Reactors of the callback API: gRPC's own threads, no thread per stream. Flow control: while the
// store is behind, no stream is read, and the ranks' rings hold what comes.
//
// Errors that a rank sees:
//   FAILED_PRECONDITION  another protocol version; a first message that is no Hello; Finish before
//   all rows came INVALID_ARGUMENT     what model::Validate or the store refuses NOT_FOUND Update
//   or Finish of a stream that has ended or never attached: attach first RESOURCE_EXHAUSTED   more
//   than 4096 live streams, 10,000 shapes of a stream, 1,000,000 keys of a shape UNAVAILABLE the
//   daemon is stopping
// When a ring attaches again, the newer attachment counts; the older one's rows are taken as
// resends.
class IngestService final : public v1::Ingest::CallbackService {
 public:
  explicit IngestService(IngestContext context) : context_(std::move(context)) {}

  grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>* Attach(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* Update(grpc::CallbackServerContext* call,
                                   const v1::UpdateRequest* request,
                                   v1::UpdateReply* reply) override;
  grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* call,
                                   const v1::FinishRequest* request,
                                   v1::FinishReply* reply) override;

 private:
  const IngestContext context_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_INGEST_SERVICE_H_
