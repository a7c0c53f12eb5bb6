#include "service/ingest/control_channel.h"

#include <errno.h>
#include <grpcpp/create_channel_posix.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/places.h"
#include "service/base/ownership.h"
#include "service/base/text/printable.h"
#include "service/base/text/shell_word.h"
#include "service/base/unique_fd.h"

namespace ranklog::ingest {
namespace {

// The daemon is on this node and needs no I/O to answer.
constexpr auto kStatusPatience = std::chrono::seconds(2);

// The same check as a rank makes before it sends a key. In a directory that others may write, any
// user could listen.
bool IsOurDaemon(int fd, const std::string& path, int64_t* pid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  *pid = peer.pid;
  return IsOursOrRoots(peer.uid) ||
         v1::IsOwnDirectory(std::filesystem::path(path).parent_path(), 022);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToDaemon(const std::string& path,
                                                               int64_t* pid) {
  *pid = 0;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (path.empty() || path.size() > v1::kMaxSocketPath) {
    return absl::InvalidArgumentError(absl::StrCat(
        "not the path of a socket; use unix:PATH with 1 to ", v1::kMaxSocketPath, " bytes"));
  }
  path.copy(name.sun_path, v1::kMaxSocketPath);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return absl::UnavailableError(strerror(errno));
  }
  if (!IsOurDaemon(fd.get(), path, pid)) {
    return absl::PermissionDeniedError(
        "the process that listens there belongs to another user; choose another address");
  }
  return grpc::CreateInsecureChannelFromFd("ranklogd", fd.release());
}

grpc::Status AskStatus(const std::shared_ptr<grpc::Channel>& channel, v1::StatusReply* reply) {
  const auto stub = v1::Control::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kStatusPatience);
  return stub->Status(&context, {}, reply);
}

std::string SocketHolder::Text() const {
  std::string text = absl::StrCat("answers at ", path);
  if (pid != 0) absl::StrAppend(&text, ": pid ", pid);
  if (!state_dir.empty()) absl::StrAppend(&text, ", state directory ", Printable(state_dir));
  return text;
}

std::string SocketHolder::StopCommand() const {
  return state_dir.empty()
             ? absl::StrCat("ranklog stop --address unix:", ShellWord(path))
             : absl::StrCat("ranklog stop --state-dir ", Printable(ShellWord(state_dir)));
}

SocketHolder HolderOfSocket(const std::string& path) {
  SocketHolder holder;
  holder.path = path;
  const auto channel = ConnectToDaemon(path, &holder.pid);
  v1::StatusReply reply;
  if (!channel.ok() || !AskStatus(*channel, &reply).ok()) return holder;
  holder.pid = reply.pid();
  holder.state_dir = reply.state_dir();
  return holder;
}

}  // namespace ranklog::ingest
