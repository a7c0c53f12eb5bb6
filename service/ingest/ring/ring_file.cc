#include "service/ingest/ring/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/status_macros.h"

namespace ranklog::ingest {
namespace {

// Does not follow a symbolic link in the last component, and does not block on a pipe.
UniqueFd OpenToRead(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

bool Leads(const UniqueFd& fd, const v1::Ring& claim) {
  struct stat info {};
  return fd.valid() && fstat(fd.get(), &info) == 0 && info.st_dev == claim.device() &&
         info.st_ino == claim.inode();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RingFile>> RingFile::OpenClaimed(const v1::Ring& claim,
                                                                      const Peer& peer) {
  if (claim.path().empty() || claim.path()[0] != '/') {
    return absl::NotFoundError("the rank's spool has no path");
  }
  std::shared_ptr<const RingFile> ring;
  if (UniqueFd fd = OpenToRead(claim.path()); Leads(fd, claim)) {
    ASSIGN_OR_RETURN(ring, Check(std::move(fd), claim.path(), peer.uid));
  } else if (peer.pid > 0) {
    fd = OpenToRead(absl::StrCat("/proc/", peer.pid, "/root", claim.path()));
    if (Leads(fd, claim)) {
      ASSIGN_OR_RETURN(ring, Check(std::move(fd), /*path=*/"", peer.uid));
    }
  }
  if (ring == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot see the rank's spool at ", claim.path()));
  }
  struct stat info {};
  if (fstat(ring->fd(), &info) != 0 || static_cast<uint64_t>(info.st_size) != claim.file_bytes()) {
    return absl::PermissionDeniedError(
        absl::StrCat(claim.path(), " has ", info.st_size, " bytes, not ", claim.file_bytes()));
  }
  return ring;
}

absl::StatusOr<std::shared_ptr<const RingFile>> RingFile::FromDescriptor(UniqueFd fd,
                                                                         const Peer& peer) {
  return Check(std::move(fd), /*path=*/"", peer.uid);
}

absl::StatusOr<std::shared_ptr<const RingFile>> RingFile::OpenLeft(const std::string& path) {
  UniqueFd fd = OpenToRead(path);
  if (!fd.valid()) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  return Check(std::move(fd), path, geteuid());
}

absl::StatusOr<std::shared_ptr<const RingFile>> RingFile::Check(UniqueFd fd, std::string path,
                                                                uid_t owner) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, "cannot stat a spool");
  // Not v1::IsOwnFile(): a spool that a rank passed must belong to the user of that rank.
  if (!S_ISREG(info.st_mode) || info.st_uid != owner ||
      info.st_size < static_cast<off_t>(v1::kSpoolDataOffset)) {
    return absl::PermissionDeniedError(
        absl::StrCat(path.empty() ? "the descriptor that the rank passed" : path,
                     " is not a spool of user ", owner));
  }
  std::shared_ptr<RingFile> ring(new RingFile);
  ring->fd_ = std::move(fd);
  ring->path_ = std::move(path);
  ring->device_ = info.st_dev;
  ring->inode_ = info.st_ino;
  return std::shared_ptr<const RingFile>(std::move(ring));
}

int64_t RingFile::modified_us() const {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return 0;
  return int64_t{info.st_mtim.tv_sec} * 1'000'000 + info.st_mtim.tv_nsec / 1000;
}

bool RingFile::locked() const {
  struct flock query {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  return fcntl(fd_.get(), F_GETLK, &query) == 0 && query.l_type != F_UNLCK;
}

bool RingFile::NameIsOurs() const {
  struct stat info {};
  return !path_.empty() && lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
         info.st_ino == inode_;
}

void RingFile::Unlink() const {
  if (NameIsOurs()) unlink(path_.c_str());
}

void RingFile::SetAside() const {
  if (NameIsOurs()) rename(path_.c_str(), absl::StrCat(path_, ".damaged").c_str());
}

}  // namespace ranklog::ingest
