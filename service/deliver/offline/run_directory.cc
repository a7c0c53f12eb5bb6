#include "service/deliver/offline/run_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"
#include "service/base/unique_fd.h"
#include "service/wandb_log/log_file.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::deliver::offline {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "offline-run-";
constexpr char kMaker[] = "ranklog";  // the first word of the header's `uuid`
constexpr size_t kCopyPiece = 1 << 20;

absl::Status FileError(int error, absl::string_view action, absl::string_view path) {
  return absl::UnavailableError(
      absl::ErrnoToStatus(error, absl::StrCat(action, " ", path)).message());
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? FileError(error.value(), "create", path) : absl::OkStatus();
}

absl::Status SyncPath(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return FileError(errno, "fsync", path);
  return absl::OkStatus();
}

std::string FileNamePart(absl::string_view id) {
  std::string name(id);
  for (char& c : name) {
    if (c == '/' || static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '_';
  }
  return name;
}

// The part of the run in the header of the log; nullopt: another log.
absl::optional<RunPart> PartIn(const std::string& log) {
  const auto reader = wandb_log::LogReader::Open(log);
  if (!reader.ok()) return absl::nullopt;
  const auto first = (*reader)->Next();
  wandb_internal::Record record;
  if (!first.ok() || !first->has_value() || !record.ParseFromString(**first)) return absl::nullopt;
  const std::vector<std::string> words = absl::StrSplit(record.uuid(), ' ');
  RunPart part;
  if (words.size() != 3 || words[0] != kMaker || !absl::SimpleAtoi(words[2], &part.number)) {
    return absl::nullopt;
  }
  part.key = words[1];
  return part;
}

absl::Status WriteBytes(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, "write to", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status CopyRange(const FileRange& from, int to, const std::string& path) {
  const UniqueFd fd(open(from.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return absl::DataLossError(absl::ErrnoToStatus(errno, "open " + from.path).message());
  }
  std::string piece(std::min<uint64_t>(from.bytes, kCopyPiece), '\0');
  for (uint64_t done = 0; done < from.bytes;) {
    const size_t wanted = std::min<uint64_t>(piece.size(), from.bytes - done);
    const ssize_t bytes =
        pread(fd.get(), piece.data(), wanted, static_cast<off_t>(from.offset + done));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return absl::DataLossError(absl::StrCat(from.path, " is too short"));
    RETURN_IF_ERROR(
        WriteBytes(to, absl::string_view(piece).substr(0, static_cast<size_t>(bytes)), path));
    done += static_cast<uint64_t>(bytes);
  }
  return absl::OkStatus();
}

}  // namespace

std::string FolderOfRuns(const std::string& wandb_dir) {
  const std::string hidden = wandb_dir + "/.wandb";
  std::error_code ignored;
  return fs::is_directory(hidden, ignored) ? hidden : wandb_dir + "/wandb";
}

std::string LogName(const std::string& run_id) {
  return absl::StrCat("run-", FileNamePart(run_id), ".wandb");
}

std::string RunPart::Text() const { return absl::StrCat(kMaker, " ", key, " ", number); }

absl::StatusOr<absl::optional<FoundPart>> LastPart(const std::string& folder,
                                                   const std::string& run_id,
                                                   const std::string& key) {
  absl::optional<FoundPart> last;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), &closedir);
  if (dir == nullptr) {
    if (errno == ENOENT) return last;
    return FileError(errno, "open", folder);
  }
  const std::string id = absl::StrCat("-", FileNamePart(run_id));
  while (const dirent* entry = readdir(dir.get())) {
    const absl::string_view name(entry->d_name);
    if (!absl::StartsWith(name, kPrefix) || !absl::StrContains(name, id)) continue;
    std::string path = absl::StrCat(folder, "/", name);
    absl::optional<RunPart> part = PartIn(absl::StrCat(path, "/", LogName(run_id)));
    if (!part || part->key != key || (last && last->part.number >= part->number)) continue;
    last = FoundPart{.directory = std::move(path), .part = *std::move(part)};
  }
  return last;
}

absl::StatusOr<std::string> MakeHidden(const std::string& folder, const std::string& key) {
  std::string hidden = absl::StrCat(folder, "/.ranklog-", key);
  std::error_code error;
  fs::remove_all(hidden, error);
  if (error) return FileError(error.value(), "remove", hidden);
  RETURN_IF_ERROR(MakeDirectories(hidden + "/files"));
  return hidden;
}

absl::StatusOr<std::string> Publish(const std::string& hidden, const std::string& folder,
                                    const std::string& run_id, absl::Time start) {
  RETURN_IF_ERROR(SyncPath(hidden));
  const std::string name =
      absl::StrCat(kPrefix, absl::FormatTime("%Y%m%d_%H%M%S", start, absl::LocalTimeZone()), "-",
                   FileNamePart(run_id));
  std::string unused = name;
  struct stat info {};
  for (int n = 1; lstat(absl::StrCat(folder, "/", unused).c_str(), &info) == 0; ++n) {
    unused = absl::StrCat(name, "-", n);
  }
  std::string path = absl::StrCat(folder, "/", unused);
  if (rename(hidden.c_str(), path.c_str()) != 0) return FileError(errno, "create", path);
  RETURN_IF_ERROR(SyncPath(folder));
  // For people. A failure costs nothing else.
  const std::string link = folder + "/latest-run";
  const std::string fresh = hidden + ".latest";
  if (symlink(unused.c_str(), fresh.c_str()) == 0 && rename(fresh.c_str(), link.c_str()) != 0) {
    unlink(fresh.c_str());
  }
  return path;
}

absl::Status StoreFile(const HttpRequest& put, const std::string& path, bool may_link) {
  const std::string parent = fs::path(path).parent_path().string();
  RETURN_IF_ERROR(MakeDirectories(parent));
  const std::string fresh = path + ".part";
  unlink(fresh.c_str());
  const bool linked = may_link && put.file.has_value() && put.file->offset == 0 &&
                      link(put.file->path.c_str(), fresh.c_str()) == 0;
  if (!linked) {
    const UniqueFd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd.valid()) return FileError(errno, "create", fresh);
    if (put.file.has_value()) {
      RETURN_IF_ERROR(CopyRange(*put.file, fd.get(), fresh));
    } else {
      RETURN_IF_ERROR(WriteBytes(fd.get(), put.body, fresh));
    }
    if (fsync(fd.get()) != 0) return FileError(errno, "fsync", fresh);
  }
  if (rename(fresh.c_str(), path.c_str()) != 0) return FileError(errno, "create", path);
  return SyncPath(parent);
}

bool IsBelow(absl::string_view path) {
  if (path.empty() || absl::StartsWith(path, "/")) return false;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

}  // namespace ranklog::deliver::offline
