#include "service/ingest/ring/content_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/stat.h>

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/status_macros.h"
#include "service/storage/directories/file_system.h"

namespace ranklog::ingest {
namespace {

// Without staged files (storage/staged_files.h).
void ForEachFile(const std::string& path,
                 const std::function<void(const char* name, const struct stat& info)>& visit) {
  DIR* const dir = opendir(path.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    if (v1::IsStaged(entry->d_name)) continue;
    struct stat info {};
    if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) visit(entry->d_name, info);
  }
  closedir(dir);
}

absl::Status Unreadable(const std::string& name, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the file ", name, " of a large item ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ContentDir>> ContentDir::Open(const std::string& state_dir,
                                                             int64_t quota, absl::Time now) {
  const std::string path = PathIn(state_dir);
  RETURN_IF_ERROR(storage::MakeDirectory(path));
  UniqueFd dir(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir.valid()) return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  std::unique_ptr<ContentDir> content(new ContentDir(path, std::move(dir), quota));
  content->RemoveBefore(now - kKept);
  return content;
}

int64_t ContentDir::BytesIn(const std::string& state_dir) {
  int64_t bytes = 0;
  ForEachFile(PathIn(state_dir), [&](const char*, const auto& info) { bytes += info.st_size; });
  return bytes;
}

void ContentDir::RemoveBefore(absl::Time time) const {
  ForEachFile(path_, [&](const char* name, const auto& info) {
    if (absl::FromTimeT(info.st_mtime) < time) Remove({name});
  });
}

v1::ContentPlace ContentDir::Place() const {
  struct stat info {};
  v1::ContentPlace place;
  if (fstat(dir_.get(), &info) != 0) return place;
  place.set_dir(path_);
  place.set_device(info.st_dev);
  place.set_inode(info.st_ino);
  place.set_quota(quota_);
  return place;
}

absl::StatusOr<v1::Item> ContentDir::Read(const v1::Item& reference) const {
  const v1::ContentFile& file = reference.file();
  const std::string& name = file.name();
  if (name.empty() || name.find('/') != std::string::npos || name[0] == '.') {
    return absl::DataLossError("a large item's file has an invalid name");
  }
  if (file.bytes() > v1::kMaxContentBytes) return Unreadable(name, "is too large");
  const UniqueFd fd(
      openat(dir_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return Unreadable(name, strerror(errno));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<uint64_t>(info.st_size) != file.bytes()) {
    return Unreadable(name, absl::StrCat("does not have the ", file.bytes(), " bytes that it had"));
  }
  v1::Item item;
  if (!item.ParseFromFileDescriptor(fd.get()) || item.has_file()) {
    return Unreadable(name, "cannot be read");
  }
  item.set_seq(reference.seq());
  item.set_time_us(reference.time_us());
  item.set_after_row(reference.after_row());
  return item;
}

void ContentDir::Remove(const std::vector<std::string>& names) const {
  for (const std::string& name : names) unlinkat(dir_.get(), name.c_str(), 0);
}

std::vector<std::string> ReadContent(const ContentDir* content, std::vector<v1::Item>* items) {
  std::vector<std::string> names;
  uint64_t bytes = 0;
  for (v1::Item& item : *items) {
    if (!item.has_file()) continue;
    bytes += item.file().bytes();
    const std::string name = item.file().name();
    absl::StatusOr<v1::Item> read =
        content == nullptr             ? absl::UnavailableError("there is no directory for it")
        : bytes > v1::kMaxContentBytes ? Unreadable(name, "is too large with those before it")
                                       : content->Read(item);
    if (read.ok()) {
      names.push_back(name);
      item = *std::move(read);
    } else {
      // It is no loss if the item is in the store already.
      if (content != nullptr) spdlog::warn("{}", std::string(read.status().message()));
      item.clear_content();
    }
  }
  return names;
}

}  // namespace ranklog::ingest
