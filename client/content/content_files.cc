#include "client/content/content_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/base/text/short_name.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {
namespace {

// Without staged files, which have no quota.
uint64_t BytesOfFiles(DIR* dir) {
  uint64_t bytes = 0;
  struct stat info {};
  while (const dirent* entry = readdir(dir)) {
    if (v1::IsStaged(entry->d_name)) continue;
    if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) bytes += static_cast<uint64_t>(info.st_size);
  }
  return bytes;
}

}  // namespace

int WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

DIR* OpenPlace(const v1::ContentPlace& place) {
  const int fd =
      open(place.dir().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct stat info {};
  const bool same = fstat(fd, &info) == 0 && info.st_dev == place.device() &&
                    info.st_ino == place.inode() && info.st_uid == geteuid() &&
                    faccessat(fd, ".", W_OK, AT_EACCESS) == 0;
  DIR* const dir = same ? fdopendir(fd) : nullptr;
  if (dir == nullptr) close(fd);
  return dir;
}

absl::StatusOr<v1::ContentFile> WriteContentFile(const v1::ContentPlace& place,
                                                 std::string_view content) {
  if (content.size() > v1::kMaxContentBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the limit is ", v1::kMaxContentBytes >> 20, " MiB"));
  }
  DIR* const dir = OpenPlace(place);
  if (dir == nullptr) return absl::FailedPreconditionError("the daemon's directory is not here");
  absl::Status status;
  v1::ContentFile file;
  file.set_name(absl::StrCat(RandomName(), RandomName()));
  file.set_bytes(content.size());
  const uint64_t used = BytesOfFiles(dir);
  if (used + content.size() > static_cast<uint64_t>(place.quota())) {
    status =
        absl::ResourceExhaustedError(absl::StrCat(place.dir(), " has ", used, " of ", place.quota(),
                                                  " bytes; raise --content-bytes of ranklogd"));
  } else {
    const int fd =
        openat(dirfd(dir), file.name().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const int error = fd < 0 ? errno : WriteAll(fd, content);
    if (fd >= 0) close(fd);
    if (error != 0) {
      if (fd >= 0) unlinkat(dirfd(dir), file.name().c_str(), 0);
      status = absl::ResourceExhaustedError(absl::StrCat(place.dir(), ": ", strerror(error)));
    }
  }
  closedir(dir);
  if (!status.ok()) return status;
  return file;
}

void RemoveContentFile(const v1::ContentPlace& place, const v1::ContentFile& file) {
  unlink(absl::StrCat(place.dir(), "/", file.name()).c_str());
}

}  // namespace ranklog::internal
