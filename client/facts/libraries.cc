#include "client/facts/libraries.h"

#include <gnu/libc-version.h>

#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "client/facts/small_file.h"

namespace ranklog::internal {
namespace {

constexpr size_t kMostLibraries = 300;
// A line has up to 80 characters before its path. A program with CUDA has some thousand lines.
constexpr size_t kMostOfMaps = size_t{4} << 20;

// The path of a line of /proc/PID/maps if the line is code of a shared library (proc_pid_maps(5)).
std::string_view LibraryPath(std::string_view line) {
  const size_t permissions = line.find(' ');
  const size_t path = line.find('/');
  if (path == std::string_view::npos || line.substr(permissions + 3, 1) != "x") return {};
  line.remove_prefix(path);
  return line.find(".so") == std::string_view::npos ? std::string_view() : line;
}

}  // namespace

std::string LibraryVersion(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  constexpr std::string_view kExtension = ".so";
  const size_t extension = path.find(kExtension);
  std::string name(path.substr(0, extension));
  std::string version;
  if (extension != std::string_view::npos) {
    version = path.substr(extension + kExtension.size());
    if (!version.empty()) version.erase(0, 1);  // the dot
  }
  const size_t dash = name.rfind('-');
  if (version.empty() && dash != std::string::npos && dash + 1 < name.size() &&
      name.find_first_not_of("0123456789.", dash + 1) == std::string::npos) {
    version = name.substr(dash + 1);
    name.resize(dash);
  }
  return version.empty() ? name : name + "==" + version;
}

// Not by dl_iterate_phdr(): a child that is forked while another thread is in it inherits its lock, and
// waits for ever.
std::vector<std::string> LoadedLibraries() {
  const std::string maps = ReadSmallFile("/proc/self/maps", kMostOfMaps).value_or("");
  std::set<std::string> libraries;
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const std::string_view path = LibraryPath(std::string_view(line.data(), line.size()));
    if (path.empty() || libraries.size() == kMostLibraries) continue;
    std::string library = LibraryVersion(path);
    if (library.substr(0, library.find('=')) == "libc") {
      library = std::string("libc==") + gnu_get_libc_version();
    }
    libraries.insert(std::move(library));
  }
  return {libraries.begin(), libraries.end()};
}

}  // namespace ranklog::internal
