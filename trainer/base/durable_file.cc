#include "trainer/base/durable_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ranklog::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestWrite = 1 << 30;  // Linux writes at most 2 GiB at once

std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

}  // namespace

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // EINVAL: a file system that does not sync directories, such as some FUSE file systems.
  const bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (synced) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("cannot sync the directory ", directory));
}

absl::Status CreateDirectories(const std::string& path) {
  fs::path made;
  for (const fs::path& part : fs::path(path)) {
    made /= part;
    std::error_code error;
    if (!fs::create_directory(made, error) && !error) continue;
    if (error == std::errc::file_exists || error == std::errc::not_a_directory) {
      return absl::ErrnoToStatus(ENOTDIR,
                                 absl::StrCat("cannot create ", path, ": ", made.string()));
    }
    if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot create ", path));
    if (absl::Status synced = SyncDirectory(ParentOf(made)); !synced.ok()) return synced;
  }
  return absl::OkStatus();
}

absl::StatusOr<DurableFile> DurableFile::Create(std::string path) {
  const std::string temporary = path + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, absl::StrCat("cannot create ", temporary));
  }
  return DurableFile(std::move(path), fd);
}

DurableFile::DurableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(other.path_), fd_(std::exchange(other.fd_, -1)) {}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary().c_str());
}

absl::Status DurableFile::Failure(const char* verb, int error) const {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", verb, " ", temporary()));
}

absl::Status DurableFile::Append(const void* bytes, size_t size) {
  const char* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t wrote = write(fd_, next, std::min(size, kLargestWrite));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Failure("write", errno);
    next += wrote;
    size -= static_cast<size_t>(wrote);
  }
  return absl::OkStatus();
}

absl::Status DurableFile::Commit() {
  if (fsync(fd_) != 0) return Failure("sync", errno);
  if (rename(temporary().c_str(), path_.c_str()) != 0) return Failure("rename", errno);
  close(std::exchange(fd_, -1));
  return SyncDirectory(ParentOf(path_));
}

}  // namespace ranklog::trainer
