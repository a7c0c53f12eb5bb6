#include "service/storage/directories/spool_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/storage/directories/file_system.h"

namespace ranklog::storage {
namespace {

namespace fs = std::filesystem;

std::string SpoolDirsFile(const std::string& state_dir) {
  return absl::StrCat(state_dir, "/spool_dirs");
}

// The same result for all names of a directory. Unchanged if it cannot be resolved.
std::string CanonicalDir(const std::string& dir) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(dir, error);
  return error ? dir : canonical.string();
}

bool Contains(const std::vector<std::string>& dirs, const std::string& dir) {
  return std::find(dirs.begin(), dirs.end(), dir) != dirs.end();
}

}  // namespace

std::vector<std::string> RememberedSpoolDirs(const std::string& state_dir) {
  std::vector<std::string> dirs;
  std::ifstream file(SpoolDirsFile(state_dir));
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] == '/') dirs.push_back(line);
  }
  return dirs;
}

SpoolDirs::SpoolDirs(const std::string& state_dir, const std::vector<std::string>& standard)
    : file_(SpoolDirsFile(state_dir)), dirs_(RememberedSpoolDirs(state_dir)) {
  for (const std::string& dir : standard) standard_.push_back(CanonicalDir(dir));
  std::erase_if(dirs_, [this](const std::string& dir) { return Contains(standard_, dir); });
}

absl::Status SpoolDirs::Remember(absl::string_view path) {
  const std::string dir = CanonicalDir(fs::path(std::string(path)).parent_path());
  if (Contains(standard_, dir) || dir.find('\n') != std::string::npos) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  if (Contains(dirs_, dir)) return absl::OkStatus();
  std::vector<std::string> before = dirs_;
  if (dirs_.size() >= kMost) {
    // A missing one may come back with its disk, so it is dropped only for lack of room.
    const auto missing = std::find_if(dirs_.begin(), dirs_.end(), [](const std::string& each) {
      std::error_code error;
      return !fs::is_directory(each, error);
    });
    dirs_.erase(missing == dirs_.end() ? dirs_.begin() : missing);
  }
  dirs_.push_back(dir);
  absl::Status written = Write();
  if (!written.ok()) dirs_ = std::move(before);  // the next ring tries again
  return written;
}

std::vector<std::string> SpoolDirs::All() const {
  absl::MutexLock lock(&mutex_);
  return dirs_;
}

absl::Status SpoolDirs::Write() const {
  const std::string part = file_ + ".part";
  const int fd = open(part.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", part));
  const std::string text = absl::StrCat(absl::StrJoin(dirs_, "\n"), "\n");
  errno = ENOSPC;  // for a short write
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (!written) return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", part));
  if (rename(part.c_str(), file_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename ", part, " to ", file_));
  }
  return SyncDirectory(fs::path(file_).parent_path());
}

}  // namespace ranklog::storage
