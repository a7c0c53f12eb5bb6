#include "service/deliver/wandb/artifacts/staged_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {
namespace {

absl::Status Damaged(const std::string& name, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("its staged file ", name, " ", why));
}

}  // namespace

absl::Status StagedFile::Open(const std::string& dir, const std::string& name, uint64_t bytes,
                              uint64_t part_bytes) {
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    return Damaged(name, "has an invalid name");
  }
  const std::string path = absl::StrCat(dir, "/", name);
  fd_ = UniqueFd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd_.valid()) return Damaged(name, absl::StrCat("cannot be opened: ", strerror(errno)));
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<uint64_t>(info.st_size) != bytes) {
    fd_ = UniqueFd();
    return Damaged(name, absl::StrCat("does not have the ", bytes, " bytes that it had"));
  }
  name_ = name;
  bytes_ = bytes;
  part_bytes_ = part_bytes;
  at_ = 0;
  parts_.clear();
  return absl::OkStatus();
}

absl::StatusOr<bool> StagedFile::Read(size_t bytes) {
  std::string buffer(std::min<size_t>(bytes, size_t{1} << 20), '\0');
  for (size_t done = 0; done < bytes && at_ < bytes_;) {
    size_t wanted = buffer.size();
    if (part_bytes_ > 0) wanted = std::min<uint64_t>(wanted, part_bytes_ - at_ % part_bytes_);
    const ssize_t got = pread(fd_.get(), buffer.data(), wanted, static_cast<off_t>(at_));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      fd_ = UniqueFd();
      return Damaged(name_, got == 0 ? "became shorter" : strerror(errno));
    }
    const absl::string_view piece(buffer.data(), static_cast<size_t>(got));
    at_ += piece.size();
    done += piece.size();
    md5_.Add(piece);
    if (part_bytes_ == 0) continue;
    part_md5_.Add(piece);
    if (at_ % part_bytes_ == 0 || at_ == bytes_) parts_.push_back(part_md5_.Finish());
  }
  if (at_ < bytes_) return false;
  digest_ = md5_.Finish();
  fd_ = UniqueFd();
  return true;
}

}  // namespace ranklog::deliver::wandb
