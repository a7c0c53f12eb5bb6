#include "client/stream/socket/connection.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "client/base/own_grpc.h"
#include "client/stream/socket/open_sockets.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {
namespace {

// Never a standard descriptor: the program's messages to a closed stderr would go to the daemon.
// If no descriptor is available, the connection is useless. It is then lost at once, and tried
// again.
int Duplicate(int fd) {
  const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (duplicate < 0) shutdown(fd, SHUT_RDWR);
  return duplicate;
}

bool grpc_is_up = false;  // for the sender's thread

std::shared_ptr<grpc::Channel> MakeChannel(int fd) {
  if (SilenceOwnGrpc != nullptr) SilenceOwnGrpc();
  if (!std::exchange(grpc_is_up, true)) grpc_init();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(v1::kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(v1::kMaxMessageBytes);
  return grpc::CreateCustomInsecureChannelFromFd("ranklogd", fd, arguments);
}

}  // namespace

Connection::Connection(int fd)
    : socket_(Duplicate(fd)), channel_(MakeChannel(fd)), stub_(v1::Ingest::NewStub(channel_)) {
  if (socket_ >= 0) AddSocket(socket_, fd);
}

Connection::~Connection() { CloseSocket(socket_); }

void Connection::EndGrpc() {
  if (std::exchange(grpc_is_up, false)) grpc_shutdown();
}

bool Connection::Poll(std::chrono::steady_clock::time_point deadline) {
  const auto wait = deadline - std::chrono::steady_clock::now();
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok,
                       std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::microseconds>(wait)) !=
      grpc::CompletionQueue::GOT_EVENT) {
    return false;
  }
  const auto* const done = static_cast<CallTag*>(tag);
  done->listener->OnDone(done->operation, ok);
  return true;
}

void Connection::Drain() {
  if (socket_ >= 0) shutdown(socket_, SHUT_RDWR);
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    const auto* const done = static_cast<CallTag*>(tag);
    done->listener->OnDone(done->operation, /*ok=*/false);
  }
}

}  // namespace ranklog::internal
