// The gRPC services that ranks and tools call.

#ifndef SERVICE_INGEST_INGEST_SERVICE_H_
#define SERVICE_INGEST_INGEST_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/ingest/attach.h"
#include "service/ingest/peer.h"
#include "service/ingest/stream_registry.h"
#include "service/pipeline/store_loop.h"

namespace ranklog::ingest {

struct IngestCounters {
  std::atomic<uint64_t> attaches{0};
  std::atomic<uint64_t> refused_messages{0};  // invalid: their stream was closed with the reason
  std::atomic<uint64_t> batches{0};
  std::atomic<uint64_t> rows{0};          // durable, resent ones included
  std::atomic<uint64_t> unseen_rings{0};  // attaches whose ring could not be opened by its path
  std::atomic<uint64_t> paused_streams{
      0};                                // times a stream was not read because the store was behind
  std::atomic<uint64_t> orphans{0};      // rings drained after their rank's death
  std::atomic<uint64_t> orphan_rows{0};  // found in them
  std::atomic<uint64_t> damaged_rings{0};  // readable only in part, and set aside
};

// What the RPCs work with. All of it outlives the gRPC server.
struct IngestContext {
  pipeline::StoreLoop* store;
  Attacher* attacher;  // of the store loop's thread
  StreamRegistry* registry;
  PeerTable* peers;
  IngestCounters* counters;
  Credentials credentials;
  // Called from any thread after a commit; must not block.
  std::function<void(int64_t run)>
      run_attached;                              // the run may be new, or may have new destinations
  std::function<void(int64_t run)> run_changed;  // its streams have rows, updates, or an end
};

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
