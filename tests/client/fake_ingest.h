// A daemon's Ingest service inside the test's process, on a real unix socket. It keeps the rows in
// memory, acknowledges them, and fails on demand.

#ifndef TESTS_CLIENT_FAKE_INGEST_H_
#define TESTS_CLIENT_FAKE_INGEST_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ranklog/v1/ranklog.grpc.pb.h"

namespace ranklog::testing {

// A row as the daemon decodes it.
struct ReceivedRow {
  uint64_t seq = 0;
  int64_t step = 0;
  int64_t time_us = 0;
  bool commits = false;
  std::map<std::string, double> values;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::string> json;  // values that are JSON text
};

// The state of one ring. It survives lost connections, as the store would.
struct ReceivedStream {
  v1::Hello hello;
  std::vector<ReceivedRow> rows;  // ordered by seq, without gaps
  std::map<uint32_t, std::vector<std::string>> shapes;
  std::vector<v1::Item> items;  // without gaps
  v1::Losses losses;
  int64_t passed_step = -1;
  bool finished = false;
  int32_t exit_code = 0;
  uint64_t last_seq = 0;
  uint64_t last_item = 0;
};

class FakeIngest : public v1::Ingest::Service {
 public:
  explicit FakeIngest(std::string socket_path) : path_(std::move(socket_path)) {}
  ~FakeIngest() override { Stop(); }

  void Start();
  // Ends all connections at once, like a daemon killed by SIGKILL.
  void Stop();

  // Thread-safe; call these at any time.
  std::vector<ReceivedStream> Streams();
  // Rows of the only stream, or of all streams if there are several.
  std::vector<ReceivedRow> Rows();
  size_t row_count();
  int attaches();            // calls of Attach so far
  size_t duplicates();       // rows that were sent again after their acknowledgement
  std::string error();       // a protocol error of a client; empty if there is none
  void HoldAcks(bool hold);  // stores rows, but does not acknowledge them; other streams' items are
  void HoldHellos(bool hold);  // does not answer new streams
  void AskForDescriptor(bool ask);
  // From now on, ranks can leave files there.
  void SetContent(const v1::ContentPlace& place);
  // From now on, every answer has this notice.
  void Post(const v1::Notice& notice);
  // Breaks every stream after this many more batches. The last one is stored, but not acknowledged.
  void BreakAfter(int batches);

  grpc::Status Attach(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::ServerMessage, v1::ClientMessage>* stream) override;
  grpc::Status Finish(grpc::ServerContext* context, const v1::FinishRequest* request,
                      v1::FinishReply* reply) override;

 private:
  using Shapes = std::map<uint32_t, std::vector<std::string>>;  // of one connection

  void Store(const v1::Batch& batch, const Shapes& shapes, ReceivedStream* stream);
  void Store(const v1::Items& items, ReceivedStream* stream);
  void ReportError(const std::string& error);

  const std::string path_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable acks_;
  std::map<uint64_t, ReceivedStream> streams_;  // by incarnation
  std::string error_;
  int attaches_ = 0;
  int break_after_ = -1;
  size_t duplicates_ = 0;
  bool hold_acks_ = false;
  bool hold_hellos_ = false;
  bool ask_for_descriptor_ = false;
  std::vector<v1::Notice> notices_;
  v1::ContentPlace content_;
  bool stopping_ = false;
};

}  // namespace ranklog::testing

#endif  // TESTS_CLIENT_FAKE_INGEST_H_
