// Connects to the daemon that listens at a socket, for the command line and for another daemon.

#ifndef SERVICE_INGEST_CONTROL_CHANNEL_H_
#define SERVICE_INGEST_CONTROL_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ranklog/v1/ranklog.grpc.pb.h"

namespace ranklog::ingest {

// Connects to the socket at `path`. Sets `*pid` to the process that listens there; 0 if it is in
// another pid namespace.
// The message of an error has only the reason.
//   kUnavailable       no process listens there
//   kPermissionDenied  a process of another user listens there
//   kInvalidArgument   not the path of a socket
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToDaemon(const std::string& path,
                                                               int64_t* pid);

// Asks the daemon for its status. Waits at most two seconds.
grpc::Status AskStatus(const std::shared_ptr<grpc::Channel>& channel, v1::StatusReply* reply);

// A daemon that holds a socket which this process wants.
struct SocketHolder {
  std::string path;       // of the socket
  int64_t pid = 0;        // 0: unknown
  std::string state_dir;  // empty: it did not answer in time

  // "answers at PATH: pid 12, state directory DIR"
  std::string Text() const;
  // "ranklog stop --state-dir DIR"
  std::string StopCommand() const;
};
SocketHolder HolderOfSocket(const std::string& path);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_CONTROL_CHANNEL_H_
