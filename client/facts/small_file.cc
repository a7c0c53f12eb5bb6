#include "client/facts/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace ranklog::internal {

std::optional<std::string> ReadSmallFile(const std::string& path, size_t most) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  struct stat facts {};
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    close(fd);
    return std::nullopt;
  }
  std::string text;
  char buffer[16 << 10];
  ssize_t got;
  while (text.size() < most && (got = read(fd, buffer, sizeof buffer)) > 0) {
    text.append(buffer, std::min(static_cast<size_t>(got), most - text.size()));
  }
  close(fd);
  return text;
}

}  // namespace ranklog::internal
