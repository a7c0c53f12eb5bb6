// The Unix socket that ranks connect to.

#ifndef SERVICE_INGEST_SERVER_LISTEN_SOCKET_H_
#define SERVICE_INGEST_SERVER_LISTEN_SOCKET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/file_identity.h"
#include "service/base/unique_fd.h"

namespace ranklog::ingest {

// The start of the message of Bind()'s kAlreadyExists.
inline constexpr char kOtherAnswers[] = "another daemon answers at ";

// Whether a process listens at this path.
bool IsListening(const std::string& path);
// Whether systemd listens at this path, for a unit of its own.
bool SystemdListens(const std::string& path);

// Creates `dir` (mode 0700; one level) if it is missing.
//   kFailedPrecondition  not a directory, of another user, or accessible to other users
absl::Status PreparePrivateDirectory(const std::string& dir);

// A listening socket, non-blocking. Its destructor removes the socket file if this object created
// it and nothing has replaced it.
class ListenSocket {
 public:
  // Binds under a temporary name and renames, so that a socket file with the final name always
  // accepts connections. Binds at `path` itself if a temporary name would be too long. Creates the
  // directory if it is missing. It must be ours, with mode 0700.
  //   kInvalidArgument     the path is empty or longer than v1::kMaxSocketPath
  //   kFailedPrecondition  the directory is not private to this user, or `path` is a regular file
  //   kAlreadyExists       another process listens at `path`
  static absl::StatusOr<ListenSocket> Bind(const std::string& path);

  // Takes the socket that systemd passed (LISTEN_PID, LISTEN_FDS). The passed descriptor stays open
  // in this process, so that the socket can be taken again after this object is destroyed.
  //   kNotFound         no socket was passed to this process
  //   kInvalidArgument  the passed descriptor is not exactly one listening Unix socket
  static absl::StatusOr<ListenSocket> FromSystemd();

  ListenSocket(ListenSocket&&) = default;
  ListenSocket& operator=(ListenSocket&& other) noexcept;  // swaps with `other`
  ~ListenSocket();

  // False if the socket file was removed or replaced, so that nobody can connect any more.
  bool InPlace() const { return file_.InPlace(); }

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  ListenSocket(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
  FileIdentity file_;
  bool made_ = false;  // this object created the file
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_LISTEN_SOCKET_H_
