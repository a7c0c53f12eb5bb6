#include "service/import/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/text/printable.h"
#include "service/base/unique_fd.h"
#include "service/storage/staged_files.h"

namespace ranklog::imports {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::StatusOr<Staged> StageFile(const std::string& state_dir, const std::string& path,
                                 const std::string& id) {
  const std::string dir = storage::ContentDirOf(state_dir);
  mkdir(dir.c_str(), 0700);  // an error shows below
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat("there is no file ", Printable(path)));
  }
  Staged staged{.name = absl::StrCat(v1::kStagedPrefix, id)};
  const std::string to = absl::StrCat(dir, "/", staged.name);
  unlink(to.c_str());  // of an import that was interrupted
  if (linkat(AT_FDCWD, path.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    fs::copy_file(path, to, error);
    const UniqueFd copy(open(to.c_str(), O_RDONLY | O_CLOEXEC));
    if (error || !copy.valid() || fsync(copy.get()) != 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot copy ", Printable(path), " to ", dir, ": ",
                       error ? error.message() : std::string(strerror(errno))));
    }
  }
  staged.bytes = fs::file_size(to, error);
  return staged;
}

bool StaysBelow(const std::string& path) {
  const fs::path relative(path);
  return !path.empty() && !relative.is_absolute() &&
         std::find(relative.begin(), relative.end(), "..") == relative.end();
}

}  // namespace ranklog::imports
