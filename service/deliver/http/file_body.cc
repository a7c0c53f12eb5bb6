#include "service/deliver/http/file_body.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

namespace ranklog::deliver {

absl::Status FileBody::Open(const FileRange& range) {
  range_ = range;
  fd_ = UniqueFd(open(range.path.c_str(), O_RDONLY | O_CLOEXEC));
  return fd_.valid() ? absl::OkStatus() : absl::DataLossError(strerror(errno));
}

size_t FileBody::Read(char* buffer, size_t size, size_t count, void* user) {
  auto& body = *static_cast<FileBody*>(user);
  const size_t wanted = std::min<uint64_t>(size * count, body.range_.bytes - body.at_);
  if (wanted == 0) return 0;
  const ssize_t got =
      pread(body.fd_.get(), buffer, wanted, static_cast<off_t>(body.range_.offset + body.at_));
  if (got > 0) {
    body.at_ += static_cast<uint64_t>(got);
    return static_cast<size_t>(got);
  }
  body.error_ = got == 0 ? "the file became shorter" : strerror(errno);
  return CURL_READFUNC_ABORT;
}

int FileBody::Seek(void* user, curl_off_t offset, int /*origin: always SEEK_SET*/) {
  static_cast<FileBody*>(user)->at_ = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

}  // namespace ranklog::deliver
