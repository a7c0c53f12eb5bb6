#include "client/settings/socket_address.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ranklog::internal {
namespace {

constexpr char kUnix[] = "unix:";

std::string PathOf(const std::string& address) {
  std::string path = address.substr(sizeof kUnix - 1);
  if (absl::StartsWith(path, "///")) path.erase(0, 2);  // the form of a URL
  return path;
}

}  // namespace

std::string AddressError(const std::string& address) {
  if (address.empty()) return "";
  if (!absl::StartsWith(address, kUnix)) {
    return absl::StrCat("address is \"", address, "\"; use unix:PATH");
  }
  const std::string path = PathOf(address);
  if (path.empty() || path[0] != '/') return "address has no absolute path; use unix:/PATH";
  if (path.find('\0') != std::string::npos) return "address contains a zero byte";
  if (path.size() > v1::kMaxSocketPath) {
    return absl::StrCat("address has a path of ", path.size(), " bytes; the limit is ",
                        v1::kMaxSocketPath, "; choose a shorter one");
  }
  return "";
}

std::vector<SocketLocation> SocketPlaces(const std::string& address) {
  if (!address.empty()) {
    const std::string path = PathOf(address);
    const size_t slash = path.rfind('/');
    const std::string dir = slash == 0 ? "/" : path.substr(0, slash);
    return {{path, {dir, /*create=*/true}, /*trusted=*/true}};
  }
  std::vector<SocketLocation> places;
  for (const PrivateDir& dir : StandardDirs()) {
    places.push_back({absl::StrCat(dir.path, "/", kSocketFile), dir, /*trusted=*/false});
  }
  return places;
}

}  // namespace ranklog::internal
