// The Unix socket that ranks connect to.

#ifndef SERVICE_INGEST_LISTEN_SOCKET_H_
#define SERVICE_INGEST_LISTEN_SOCKET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/file_identity.h"
#include "service/ingest/unique_fd.h"

namespace ranklog::ingest {

inline constexpr size_t kMaxSocketPath = 107;  // sun_path has 108 bytes, with the final zero

// Whether a process listens at this path.
bool SomebodyAnswers(const std::string& path);
// Whether a systemd listens there, for a unit of its own.
bool SystemdAnswers(const std::string& path);

// Makes `dir` (mode 0700; one level) if it is absent.
//   kFailedPrecondition  it is no directory, not ours, or others may enter it
absl::Status PreparePrivateDirectory(const std::string& dir);

// A listening socket, non-blocking. Its file goes with it, if we made it and it is still ours.
class ListenSocket {
 public:
  // Binds under another name and renames, so that a file of that name always answers. The directory
  // is made if absent, and must be ours, 0700.
  //   kInvalidArgument     the path is empty or longer than kMaxSocketPath
  //   kFailedPrecondition  the directory is not private to us
  //   kAlreadyExists       somebody answers there
  static absl::StatusOr<ListenSocket> Bind(const std::string& path);

  // Takes the socket that systemd passed (LISTEN_PID, LISTEN_FDS). It stays open in this process,
  // so that it can be taken again, when the one made from it is gone.
  //   kNotFound            none was passed to this process
  //   kInvalidArgument     it is not one listening Unix socket
  static absl::StatusOr<ListenSocket> FromSystemd();

  ListenSocket(ListenSocket&&) = default;
  ListenSocket& operator=(ListenSocket&& other) noexcept;  // `other` becomes what this was
  ~ListenSocket();

  // False if its file was removed or replaced: nobody can connect any more.
  bool InPlace() const { return file_.InPlace(); }

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  ListenSocket(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
  FileIdentity file_;
  bool made_ = false;  // the file, by us
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_LISTEN_SOCKET_H_
