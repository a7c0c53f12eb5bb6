#include "service/cli/node/spools/spool_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ranklog/v1/places.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/environment.h"
#include "service/storage/directories/spool_dirs.h"

namespace ranklog::cli {
namespace {

constexpr char kRingPrefix[] = "ring-";
constexpr char kRingSuffix[] = ".spool";
constexpr char kDamagedSuffix[] = ".damaged";

// Matches ring-PID-INCARNATION.spool, also with ".damaged" appended; see client/ring/spool/spool_format.md.
bool IsRingOf(absl::string_view name, const std::set<uint64_t>& incarnations) {
  absl::ConsumeSuffix(&name, kDamagedSuffix);
  if (!absl::ConsumePrefix(&name, kRingPrefix) || !absl::ConsumeSuffix(&name, kRingSuffix)) {
    return false;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  uint64_t incarnation = 0;
  return parts.size() == 2 && absl::SimpleHexAtoi(parts[1], &incarnation) &&
         incarnations.count(incarnation) != 0;
}

// Whether a process holds the lock that a rank takes on its ring. Also true if that is unknown.
bool IsLocked(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return true;
  struct flock query {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  const bool locked = fcntl(fd, F_GETLK, &query) != 0 || query.l_type != F_UNLCK;
  close(fd);
  return locked;
}

}  // namespace

std::vector<std::string> SpoolDirs(const std::string& state_dir) {
  std::vector<std::string> dirs = storage::RememberedSpoolDirs(state_dir);
  const std::string named = v1::WithoutSlashAtEnd(EnvironmentVariable("RANKLOG_SPOOL_DIR"));
  if (!named.empty() && std::find(dirs.begin(), dirs.end(), named) == dirs.end()) {
    dirs.push_back(named);
  }
  for (const v1::PrivateDir& dir : v1::StandardDirs()) dirs.push_back(dir.path);
  return dirs;
}

std::string OtherVersion(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return "";
  std::string bytes(v1::kSpoolDataOffset, '\0');
  const ssize_t size = pread(fd, bytes.data(), bytes.size(), 0);
  close(fd);
  if (size != static_cast<ssize_t>(bytes.size())) return "";
  const auto word = [&bytes](size_t at, auto value) {
    memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  if (word(offsetof(v1::SpoolHeader, magic), uint64_t{0}) != v1::kSpoolMagic) return "";
  const auto version = word(offsetof(v1::SpoolHeader, version), uint32_t{0});
  if (version > v1::kSpoolVersion) return absl::StrCat("layout ", version);
  const auto hello_bytes = word(offsetof(v1::SpoolHeader, hello_bytes), uint32_t{0});
  v1::Hello hello;
  if (hello_bytes == 0 || hello_bytes > v1::kSpoolHelloBytes ||
      !hello.ParseFromArray(bytes.data() + v1::kSpoolHeaderBytes, static_cast<int>(hello_bytes)) ||
      hello.protocol() == v1::kProtocolVersion) {
    return "";
  }
  return absl::StrCat("protocol ", hello.protocol(), ", rank ", hello.stream().rank(), " of ",
                      hello.stream().job_id());
}

std::vector<std::string> DamagedRings(const std::string& state_dir) {
  std::set<std::string> paths;  // a directory may be listed twice
  for (const std::string& dir : SpoolDirs(state_dir)) {
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator(dir, error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (absl::StartsWith(name, kRingPrefix) && absl::EndsWith(name, kDamagedSuffix)) {
        paths.insert(entry->path().string());
      }
    }
  }
  return {paths.begin(), paths.end()};
}

void RemoveRings(const std::string& state_dir, const std::set<uint64_t>& incarnations) {
  for (const std::string& dir : SpoolDirs(state_dir)) {
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator(dir, error);
         entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      const std::string path = entry->path().string();
      const std::string name = entry->path().filename().string();
      if (IsRingOf({name.data(), name.size()}, incarnations) && !IsLocked(path)) {
        unlink(path.c_str());
      }
    }
  }
}

}  // namespace ranklog::cli
