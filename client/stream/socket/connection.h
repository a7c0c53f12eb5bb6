// One connection to a daemon: a gRPC channel on a socket that we connected ourselves, and the queue
// of its completed calls. It ends with the socket and does not reconnect; open a new one instead.

#ifndef CLIENT_STREAM_SOCKET_CONNECTION_H_
#define CLIENT_STREAM_SOCKET_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "ranklog/v1/ranklog.grpc.pb.h"

namespace ranklog::internal {

// Receives the result of a call that it started.
class CallListener {
 public:
  virtual ~CallListener() = default;
  virtual void OnDone(int operation, bool ok) = 0;
};

// The tag of one operation in the completion queue. It outlives the operation.
struct CallTag {
  CallListener* listener;
  int operation;
};

// Use it on the sender's thread, or on a thread that has paused the sender.
class Connection {
 public:
  explicit Connection(int fd);  // takes ownership of the socket
  ~Connection();                // call Drain() before

  v1::Ingest::Stub* stub() { return stub_.get(); }
  grpc::CompletionQueue* queue() { return &queue_; }

  // Ends gRPC's threads. Call it after the last connection of the process. Without this, gRPC would
  // end them with each last channel, and wait forever for a thread that it could not start.
  static void EndGrpc();

  // Reports completed operations to their listeners. Waits until `deadline` for the first one.
  // False: no operation completed.
  bool Poll(std::chrono::steady_clock::time_point deadline);

  // Waits until all calls have ended. They were cancelled before, so they end at once. Start no
  // call after this. Shuts the socket down first: gRPC ends a call only after its pending write. If
  // the daemon is stopped and the socket is full, that write would never end.
  void Drain();

 private:
  const int socket_;  // a duplicate: the channel may close its own descriptor at any time
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Ingest::Stub> stub_;
  grpc::CompletionQueue queue_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_SOCKET_CONNECTION_H_
