#include "client/content/staged_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/base/descriptor.h"
#include "client/base/text/short_name.h"
#include "client/content/content_files.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 8 << 20;
constexpr uint64_t kFreePart = 20;  // of the file system: one of so many parts stays free

absl::Status Errno(absl::StatusCode code, const std::string& path) {
  return absl::Status(code, absl::StrCat(path, ": ", strerror(errno)));
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

absl::Status CheckSpace(int dir, const std::string& place, uint64_t bytes) {
  struct statvfs space {};
  if (fstatvfs(dir, &space) != 0) return Errno(absl::StatusCode::kResourceExhausted, place);
  const uint64_t free = space.f_bavail * space.f_frsize;
  const uint64_t kept = space.f_blocks / kFreePart * space.f_frsize;
  if (free >= kept && free - kept >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no room for a file of ", bytes, " bytes: ", place, " has ", free,
                   " bytes free, of which ", kept, " (5 %) are kept free; free space there"));
}

// Starts to write a piece to the disk, and waits for the one before it. So a slow disk shows as a slow
// copy, and not as a long wait at its end.
void WriteBack(int to, uint64_t at, uint64_t bytes) {
  sync_file_range(to, static_cast<off64_t>(at), static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
  if (at == 0) return;
  const uint64_t before = std::min<uint64_t>(at, kPiece);
  sync_file_range(to, static_cast<off64_t>(at - before), static_cast<off64_t>(before),
                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

// Copies with the kernel's copy where it can, else by reads and writes.
absl::Status Copy(int from, int to, uint64_t bytes, const std::string& path,
                  const std::function<bool(uint64_t)>& goes_on) {
  std::unique_ptr<char[]> buffer;
  for (uint64_t done = 0; done < bytes;) {
    if (!goes_on(done)) return absl::CancelledError("the run ended before the copy did");
    const size_t wanted = std::min<uint64_t>(kPiece, bytes - done);
    ssize_t got = buffer == nullptr ? copy_file_range(from, nullptr, to, nullptr, wanted, 0) : -1;
    if (got < 0 && buffer == nullptr && errno != ENOSPC && errno != EIO && errno != EINTR) {
      buffer = std::make_unique<char[]>(kPiece);  // another file system
    }
    if (buffer != nullptr) {
      got = read(from, buffer.get(), wanted);
      for (ssize_t at = 0; at < got;) {
        const ssize_t written = write(to, buffer.get() + at, static_cast<size_t>(got - at));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return Errno(absl::StatusCode::kResourceExhausted, path);
        at += written;
      }
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Errno(absl::StatusCode::kResourceExhausted, path);
    if (got == 0) return absl::AbortedError(absl::StrCat(path, " became shorter"));
    WriteBack(to, done, static_cast<uint64_t>(got));
    done += static_cast<uint64_t>(got);
  }
  char more = 0;
  if (pread(from, &more, 1, static_cast<off_t>(bytes)) > 0) {
    return absl::AbortedError(absl::StrCat(path, " has more than the ", bytes,
                                           " bytes that it tells; copy it to a "
                                           "regular file, and log that"));
  }
  return absl::OkStatus();
}

// Makes a file, and fills it by `fill(dir, file)`, which get descriptors. If that fails, it is removed.
template <typename Fill>
absl::StatusOr<StagedFile> NewFile(const v1::ContentPlace& place, uint64_t bytes,
                                   const Fill& fill) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(OpenPlace(place), &closedir);
  if (dir == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this process does not see the daemon's directory ", place.dir(),
        ", where files wait for their upload; mount it here, or run the daemon as this user"));
  }
  StagedFile file;
  file.name = absl::StrCat(v1::kStagedPrefix, RandomName(), RandomName());
  file.bytes = bytes;
  const Descriptor to(
      openat(dirfd(dir.get()), file.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (to.get() < 0) return Errno(absl::StatusCode::kResourceExhausted, place.dir());
  absl::Status status = fill(dirfd(dir.get()), to.get());
  if (status.ok() && fdatasync(to.get()) != 0) {
    status = Errno(absl::StatusCode::kResourceExhausted, place.dir());
  }
  if (status.ok()) return file;
  unlinkat(dirfd(dir.get()), file.name.c_str(), 0);
  return status;
}

}  // namespace

absl::StatusOr<StagedFile> StageFile(const v1::ContentPlace& place, const std::string& path,
                                     const std::function<bool(uint64_t copied)>& goes_on) {
  const Descriptor from(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat before {};
  if (from.get() < 0 || fstat(from.get(), &before) != 0) {
    return Errno(absl::StatusCode::kNotFound, path);
  }
  if (!S_ISREG(before.st_mode)) return absl::NotFoundError(path + " is not a regular file");
  const auto bytes = static_cast<uint64_t>(before.st_size);
  return NewFile(place, bytes, [&](int dir, int to) {
    absl::Status status;
    if (ioctl(to, FICLONE, from.get()) != 0) {
      status = CheckSpace(dir, place.dir(), bytes);
      if (status.ok()) status = Copy(from.get(), to, bytes, path, goes_on);
    }
    struct stat after {};
    if (status.ok() && (fstat(from.get(), &after) != 0 || !IsSame(before, after))) {
      status = absl::AbortedError(absl::StrCat(path, " was changed while it was copied"));
    }
    return status;
  });
}

absl::StatusOr<StagedFile> StageBytes(const v1::ContentPlace& place, std::string_view bytes) {
  return NewFile(place, bytes.size(), [&](int dir, int to) {
    absl::Status status = CheckSpace(dir, place.dir(), bytes.size());
    if (!status.ok()) return status;
    errno = WriteAll(to, bytes);
    return errno == 0 ? status : Errno(absl::StatusCode::kResourceExhausted, place.dir());
  });
}

void RemoveStagedFile(const v1::ContentPlace& place, const std::string& name) {
  unlink(absl::StrCat(place.dir(), "/", name).c_str());
}

FileStamp StampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_size, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error || path.empty() ? path : absolute.string();
}

absl::StatusOr<std::vector<FileToStage>> FilesIn(const std::string& path) {
  std::error_code error;
  std::vector<FileToStage> files;
  if (!fs::is_directory(path, error)) {
    const fs::path file(path);
    if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
    return std::vector<FileToStage>{{path, file.filename().string()}};
  }
  // The directories from `path` to the entry, to notice a link to one of them.
  std::vector<fs::path> above = {fs::canonical(path, error)};
  fs::recursive_directory_iterator entry(path, fs::directory_options::follow_directory_symlink,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().string();
    std::error_code unknown;
    const fs::file_status status = entry->status(unknown);  // of a link's target
    if (unknown) return absl::NotFoundError(absl::StrCat(name, ": ", unknown.message()));
    if (fs::is_directory(status)) {
      above.resize(static_cast<size_t>(entry.depth()) + 1);
      above.push_back(fs::canonical(entry->path(), unknown));
      if (std::find(above.begin(), above.end() - 1, above.back()) != above.end() - 1) {
        entry.disable_recursion_pending();
      }
    }
    if (!fs::is_regular_file(status)) continue;
    files.push_back({name, entry->path().lexically_relative(path).generic_string()});
  }
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  std::sort(files.begin(), files.end(),
            [](const FileToStage& a, const FileToStage& b) { return a.name < b.name; });
  return files;
}

}  // namespace ranklog::internal
