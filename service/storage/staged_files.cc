#include "service/storage/staged_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/status_macros.h"

namespace ranklog::storage {

std::string ContentDirOf(absl::string_view state_dir) {
  return absl::StrCat(state_dir, "/content");
}

absl::StatusOr<int> RemoveUnneededFiles(const std::string& content_dir, StoreReader& reader,
                                        absl::Time now) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(content_dir.c_str()), &closedir);
  if (dir == nullptr) return 0;
  std::map<std::string, absl::Time> files;
  while (const dirent* entry = readdir(dir.get())) {
    struct stat info {};
    if (!v1::IsStaged(entry->d_name) ||
        fstatat(dirfd(dir.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    files[entry->d_name] = absl::FromTimeT(info.st_mtime);
  }
  if (files.empty()) return 0;
  // A file that is staged from now on is not in `files`, so the order of the two reads is safe.
  ASSIGN_OR_RETURN(const auto needed, reader.StagedFiles());
  int removed = 0;
  for (const auto& [name, time] : files) {
    const auto known = needed.find(name);
    const bool keep = known == needed.end() ? now < time + kUnknownKept : known->second;
    if (!keep && unlinkat(dirfd(dir.get()), name.c_str(), 0) == 0) ++removed;
  }
  return removed;
}

}  // namespace ranklog::storage
