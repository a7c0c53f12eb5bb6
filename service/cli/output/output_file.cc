#include "service/cli/output/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/places.h"
#include "service/base/ownership.h"

namespace ranklog::cli {
namespace {

// Whether another user could have created a file at this path. Not v1::IsOwnDirectory(), because
// the user may name a link, and a directory of root. If the directory cannot be examined, the open
// fails later.
bool IsSharedDirectory(const std::string& path) {
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) return true;
  return !IsOursOrRoots(info.st_uid) || (info.st_mode & 022) != 0;
}

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  const bool shared = IsSharedDirectory(path);
  const int careful = shared ? O_NOFOLLOW | O_NONBLOCK : O_TRUNC;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | careful, 0666);
  if (fd < 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "cannot write ", path, ": ",
        shared && errno == ELOOP
            ? "it is a symbolic link in a directory that other users can write; choose another file"
            : strerror(errno)));
  }
  OutputFile file(fd, path);
  if (!shared) return file;
  struct stat info {};
  if (fstat(fd, &info) != 0 || !v1::IsOwnFile(info)) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", path,
                     ": it is not a private regular file of yours, and other users can write its "
                     "directory; remove it, or choose another file"));
  }
  return ftruncate(fd, 0) == 0 ? absl::StatusOr<OutputFile>(std::move(file)) : file.Failed(errno);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status OutputFile::Write(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed(errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Close() {
  return close(std::exchange(fd_, -1)) == 0 ? absl::OkStatus() : Failed(errno);
}

absl::Status OutputFile::Failed(int error) const {
  return absl::ResourceExhaustedError(absl::StrCat("cannot write ", path_, ": ", strerror(error)));
}

}  // namespace ranklog::cli
