#include "service/cli/console/source.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "absl/time/clock.h"

namespace ranklog::cli {
namespace {

// False: it cannot be written.
bool WriteAll(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(fd, data, bytes);
    if (written >= 0) {
      data += written;
      bytes -= static_cast<size_t>(written);
    } else if (errno == EAGAIN) {  // somebody else made the terminal so
      pollfd writable = {fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// False: there is nothing to read now.
bool CopyOnce(Source* source, RunLog* log) {
  char buffer[64 << 10];
  const ssize_t bytes = read(source->from.get(), buffer, sizeof buffer);
  if (bytes < 0 && errno == EINTR) return true;
  if (bytes < 0 && errno == EAGAIN) return false;
  // A terminal whose other side is closed gives EIO.
  if (bytes <= 0) {
    source->from = UniqueFd();
    return false;
  }
  const auto size = static_cast<size_t>(bytes);
  source->broken |= !WriteAll(source->to, buffer, size) && errno == EPIPE;
  log->Write(source->to == STDERR_FILENO, {buffer, size}, absl::Now());
  if (source->broken) source->from = UniqueFd();
  return source->open();
}

}  // namespace

void Drain(std::vector<Source>* sources, RunLog* log) {
  constexpr int kMost = 256;  // reads: more than a pipe holds, and an end if somebody writes on
  for (Source& source : *sources) {
    for (int i = 0; i < kMost && source.open() && CopyOnce(&source, log); ++i) {
    }
  }
}

void CopyUntil(std::vector<Source>* sources, RunLog* log, std::vector<pollfd>* others,
               absl::Duration timeout) {
  std::vector<pollfd> all = *others;
  for (const Source& source : *sources) all.push_back({source.from.get(), POLLIN, 0});
  if (poll(all.data(), all.size(), static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) {
    for (pollfd& other : *others) other.revents = 0;
    return;
  }
  std::copy(all.begin(), all.begin() + static_cast<ptrdiff_t>(others->size()), others->begin());
  for (size_t i = 0; i < sources->size(); ++i) {
    if (all[others->size() + i].revents != 0) CopyOnce(&(*sources)[i], log);
  }
}

bool AnyOpen(const std::vector<Source>& sources) {
  return std::any_of(sources.begin(), sources.end(),
                     [](const Source& source) { return source.open(); });
}

}  // namespace ranklog::cli
