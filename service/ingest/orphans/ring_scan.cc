#include "service/ingest/orphans/ring_scan.h"

#include <dirent.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ranklog/v1/places.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::ingest {
namespace {

// The same result for all names of a socket. The socket need not exist, but its directory must.
std::string Canonical(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const auto dir = std::filesystem::weakly_canonical(absolute.parent_path(), error);
  return error ? path : (dir / absolute.filename()).string();
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

}  // namespace

std::vector<std::string> RingsIn(const std::string& dir) {
  std::vector<std::string> paths;
  if (!v1::IsOwnDirectory(dir, 022)) return paths;  // no rank of ours creates its spool there
  const std::unique_ptr<DIR, CloseDir> open(opendir(dir.c_str()));
  while (const dirent* entry = open ? readdir(open.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (absl::StartsWith(name, "ring-") && absl::EndsWith(name, ".spool")) {
      paths.push_back(absl::StrCat(dir, "/", name));
    }
  }
  return paths;
}

bool IsForDaemonAt(const std::string& socket_path, const SpoolReader& ring) {
  v1::Hello hello;
  if (socket_path.empty() || !hello.ParseFromString(ring.hello())) return true;
  absl::string_view address = hello.ring().address();
  const std::string ours = Canonical(socket_path);
  if (absl::ConsumePrefix(&address, "unix:")) return Canonical(std::string(address)) == ours;
  if (address != v1::kDefaultAddress) return true;
  const std::vector<v1::PrivateDir> dirs = v1::StandardDirs();
  return std::any_of(dirs.begin(), dirs.end(), [&ours](const v1::PrivateDir& dir) {
    return Canonical(absl::StrCat(dir.path, "/", v1::kSocketFile)) == ours;
  });
}

}  // namespace ranklog::ingest
