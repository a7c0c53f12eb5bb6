#include "client/facts/libraries.h"

#include <gnu/libc-version.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <set>

namespace ranklog::internal {
namespace {

constexpr size_t kMostLibraries = 300;

int AddPath(dl_phdr_info* info, size_t /*size*/, void* paths) {
  try {
    auto* const to = static_cast<std::vector<std::string>*>(paths);
    if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/') to->emplace_back(info->dlpi_name);
    return to->size() < kMostLibraries ? 0 : 1;
  } catch (...) {  // no memory: the rest is left out
    return 1;
  }
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

std::vector<std::string> LoadedLibraries() {
  std::vector<std::string> paths;
  // The loader's lock is held in between, so the files are looked up afterwards.
  dl_iterate_phdr(AddPath, &paths);
  std::set<std::string> libraries;
  for (const std::string& path : paths) {
    char file[PATH_MAX];
    const bool is_found = realpath(path.c_str(), file) != nullptr;
    std::string library = LibraryVersion(is_found ? file : path.c_str());
    if (library.substr(0, library.find('=')) == "libc") {
      library = std::string("libc==") + gnu_get_libc_version();
    }
    libraries.insert(std::move(library));
  }
  return {libraries.begin(), libraries.end()};
}

}  // namespace ranklog::internal
