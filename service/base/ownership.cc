#include "service/base/ownership.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/base/text/shell_word.h"
#include "service/base/unique_fd.h"

namespace ranklog {

absl::StatusOr<std::string> ReadOwnFile(const std::string& path, bool must_be_private) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) {
    const int why = errno == ENOTDIR ? ENOENT : errno;
    return absl::ErrnoToStatus(why, absl::StrCat("cannot read ", path));
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::PermissionDeniedError(
        absl::StrCat("refused ", path, ": it is not a regular file; replace it with one"));
  }
  // A key that another user could write there would send our rows to that user's account.
  if (!IsOursOrRoots(info.st_uid)) {
    return absl::PermissionDeniedError(absl::StrCat("refused ", path, ": it belongs to user ",
                                                    info.st_uid,
                                                    "; replace it with a file of your own"));
  }
  if (must_be_private && (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "refused %s: it is accessible to other users (mode %04o); run: chmod 600 %s; if another "
        "user may have read it, make a new key",
        path, info.st_mode & 07777, ShellWord(path)));
  }
  std::string text(1 << 20, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

}  // namespace ranklog
