#include "service/sample/process/proc_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace ranklog::sample {
namespace {

constexpr size_t kFirstProcBuffer = 4096;

// Reads the whole file into `content`. False on an error. A short read is not the end: the kernel
// returns whole records only.
bool ReadAllOf(int fd, std::string& content) {
  if (content.size() < kFirstProcBuffer) content.resize(kFirstProcBuffer);
  size_t size = 0;
  for (;;) {
    const ssize_t got =
        pread(fd, content.data() + size, content.size() - size, static_cast<off_t>(size));
    if (got < 0) return false;
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size >= kMaxProcFile) break;
    if (size == content.size()) content.resize(size * 2);
  }
  content.resize(size);
  return true;
}

}  // namespace

absl::string_view ProcFile::Read() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!fd_.valid()) fd_ = UniqueFd(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd_.valid()) return "";
    content_.resize(content_.capacity());
    if (ReadAllOf(fd_.get(), content_)) return content_;
    fd_ = UniqueFd();
  }
  return "";
}

std::string ReadProcFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string content;
  if (!fd.valid() || !ReadAllOf(fd.get(), content)) content.clear();
  return content;
}

absl::optional<uint64_t> ReadNumber(const std::string& path) {
  const std::string content = ReadProcFile(path);
  uint64_t number = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(content), &number)) return absl::nullopt;
  return number;
}

}  // namespace ranklog::sample
