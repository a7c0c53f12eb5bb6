// One connection to a daemon: a gRPC channel on a socket that we connected ourselves, and a queue
// of what came of its calls. Only as alive as that socket: whoever wants another, opens another.

#ifndef CLIENT_CONNECTION_H_
#define CLIENT_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "ranklog/v1/ranklog.grpc.pb.h"

namespace ranklog::internal {

// Who started a call hears how it went.
class CallListener {
 public:
  virtual ~CallListener() = default;
  virtual void OnDone(int operation, bool ok) = 0;
};

// What goes through the queue for one operation; outlives it.
struct CallTag {
  CallListener* listener;
  int operation;
};

// For the sender's thread, or who holds it off.
class Connection {
 public:
  explicit Connection(int fd);  // takes the socket
  ~Connection();                // Drain() came before

  v1::Ingest::Stub* stub() { return stub_.get(); }
  grpc::CompletionQueue* queue() { return &queue_; }

  // Tells listeners what is done; waits until `deadline` for the first of it. False: nothing was.
  bool Poll(std::chrono::steady_clock::time_point deadline);

  // Waits for all calls, which were cancelled and so end at once. No call is started after this.
  // Shuts the socket down first: gRPC ends a call only after the write that is under way, and a
  // daemon that is stopped, with a full socket, would hold it for ever.
  void Drain();

 private:
  const int socket_;  // the same socket as the channel's, which may close its descriptor any time
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Ingest::Stub> stub_;
  grpc::CompletionQueue queue_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_CONNECTION_H_
