#include "service/ingest/server/listen_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ranklog/v1/places.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"

namespace ranklog::ingest {
namespace {

constexpr int kBacklog = 1024;  // all ranks of a node may connect at once
constexpr int kSystemdFd = 3;   // first descriptor that systemd passes; see sd_listen_fds(3)

absl::Status Errno(const std::string& doing) {
  return absl::ErrnoToStatus(errno, "cannot " + doing);
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, v1::kMaxSocketPath);
  return address;
}

}  // namespace

bool IsListening(const std::string& path) {
  UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressOf(path);
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         errno == EAGAIN;  // EAGAIN: the backlog is full, so a process listens
}

bool SystemdListens(const std::string& path) {
  UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = AddressOf(path);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return false;
  }
  ucred listener{};  // the process that called listen()
  socklen_t size = sizeof(listener);
  if (getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0) return false;
  std::string program;
  std::getline(std::ifstream(absl::StrCat("/proc/", listener.pid, "/comm")), program);
  return program == "systemd";
}

absl::Status PreparePrivateDirectory(const std::string& dir) {
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) return Errno(absl::StrCat("create ", dir));
  const std::string why = v1::UnusableReason({dir, /*create=*/false}, 077, " with --listen");
  return why.empty() ? absl::OkStatus() : absl::FailedPreconditionError(why);
}

absl::StatusOr<ListenSocket> ListenSocket::Bind(const std::string& path) {
  if (path.empty() || path.size() > v1::kMaxSocketPath) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the path of the socket has ", path.size(), " bytes, and the kernel accepts 1 to ",
        v1::kMaxSocketPath, "; choose another one with --listen: ", path));
  }
  std::error_code error;
  const std::filesystem::path dir =
      std::filesystem::absolute(path, error).lexically_normal().parent_path();
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot find the directory of ", path));
  }
  RETURN_IF_ERROR(PreparePrivateDirectory(dir.string()));
  if (IsListening(path)) {
    return absl::AlreadyExistsError(absl::StrCat(kOtherAnswers, path));
  }
  // Whatever another user put there before the directory was ours alone is replaced.
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0 && v1::IsOwnFile(there)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     " is a file of this user, not a socket; choose another path with "
                     "--listen"));
  }
  // Short, so that it fits in nearly all directories where `path` fits.
  std::string temporary = absl::StrCat(path.substr(0, path.rfind('/') + 1), ".", getpid());
  // Binds in place: no room for another name.
  if (temporary.size() > v1::kMaxSocketPath) temporary = path;
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Errno("create a socket");
  unlink(temporary.c_str());
  const sockaddr_un address = AddressOf(temporary);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Errno(absl::StrCat("bind ", temporary));
  }
  if (chmod(temporary.c_str(), 0600) != 0 || listen(fd.get(), kBacklog) != 0 ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = Errno(absl::StrCat("listen on ", path));
    unlink(temporary.c_str());
    return status;
  }
  ListenSocket made(std::move(fd), path);
  made.file_ = FileIdentity(path);
  made.made_ = true;
  return made;
}

absl::StatusOr<ListenSocket> ListenSocket::FromSystemd() {
  const std::string count_text = EnvironmentVariable("LISTEN_FDS");
  int pid = 0;
  int count = 0;
  const bool ours = !count_text.empty() &&
                    absl::SimpleAtoi(EnvironmentVariable("LISTEN_PID"), &pid) && pid == getpid();
  if (!ours) return absl::NotFoundError("no socket was passed");
  const bool one = absl::SimpleAtoi(count_text, &count) && count == 1;

  sockaddr_un address{};
  socklen_t size = sizeof(address);
  int listening = 0;
  socklen_t listening_size = sizeof(listening);
  if (!one || getsockname(kSystemdFd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sun_family != AF_UNIX ||
      getsockopt(kSystemdFd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_size) != 0 ||
      listening == 0) {
    return absl::InvalidArgumentError(
        "systemd must pass exactly one listening Unix socket (LISTEN_FDS)");
  }
  fcntl(kSystemdFd, F_SETFD, FD_CLOEXEC);
  fcntl(kSystemdFd, F_SETFL, fcntl(kSystemdFd, F_GETFL) | O_NONBLOCK);
  UniqueFd fd(fcntl(kSystemdFd, F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return Errno("take the socket of systemd");
  ListenSocket passed(std::move(fd), address.sun_path);
  passed.file_ = FileIdentity(passed.path_);
  return passed;
}

ListenSocket& ListenSocket::operator=(ListenSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(made_, other.made_);
  return *this;
}

ListenSocket::~ListenSocket() {
  if (made_ && fd_.valid() && file_.InPlace()) unlink(path_.c_str());
}

}  // namespace ranklog::ingest
