#include "client/base/grpc_poller.h"

#include <dirent.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <link.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ranklog::internal {
namespace {

constexpr int kLeavingVersion = 29;  // of gRPC's core, in gRPC 1.51
constexpr char kEpoll[] = "anon_inode:[eventpoll]";
constexpr char kEventfd[] = "anon_inode:[eventfd]";

bool Contains(const dl_phdr_info& object, uint64_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    const uint64_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= begin && address < begin + part.p_memsz) return true;
  }
  return false;
}

// Whether `data` is the address of a variable of gRPC.
bool IsInGrpc(uint64_t data) {
  struct Search {
    uint64_t data;
    bool found;
  } search = {data, false};
  const auto visit = [](dl_phdr_info* object, size_t, void* argument) {
    auto* const to_find = static_cast<Search*>(argument);
    const auto function = reinterpret_cast<uint64_t>(&grpc_is_initialized);
    to_find->found = Contains(*object, function) && Contains(*object, to_find->data);
    return to_find->found ? 1 : 0;
  };
  dl_iterate_phdr(visit, &search);
  return search.found;
}

// /proc/self would be empty if the main thread had ended.
bool IsOpenAs(int fd, const char* kind) {
  char path[64], target[64];
  snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
  const ssize_t size = readlink(path, target, sizeof target);
  return size == static_cast<ssize_t>(strlen(kind)) &&
         memcmp(target, kind, static_cast<size_t>(size)) == 0;
}

// The first wakeup in the epoll set `fd` whose data is `accepted`.
template <typename Accepted>
std::optional<GrpcPoller> ReadSet(int fd, const Accepted& accepted) {
  char path[64];
  snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", fd);
  FILE* const info = fopen(path, "re");
  if (info == nullptr) return std::nullopt;
  std::optional<GrpcPoller> found;
  char line[256];
  while (fgets(line, sizeof line, info) != nullptr) {
    int wakeup_fd = -1;
    unsigned events = 0;
    unsigned long long data = 0;
    if (sscanf(line, "tfd: %d events: %x data: %llx", &wakeup_fd, &events, &data) != 3) continue;
    if (!accepted(data) || !IsOpenAs(wakeup_fd, kEventfd)) continue;
    found = {fd, wakeup_fd, events, data};
    break;
  }
  fclose(info);
  return found;
}

// Moves `from` to the number of `to`. Closes `from`.
bool Move(int from, int to) {
  const bool moved = from >= 0 && dup3(from, to, O_CLOEXEC) == to;
  if (from >= 0) close(from);
  return moved;
}

}  // namespace

bool GrpcLeavesPoller() {
  if (atoi(grpc_version_string()) > kLeavingVersion) return false;
  const char* const strategy = getenv("GRPC_POLL_STRATEGY");
  return strategy == nullptr || strstr(strategy, "all") != nullptr ||
         strstr(strategy, "epoll") != nullptr;
}

std::optional<GrpcPoller> FindGrpcPoller() {
  DIR* const fds = opendir("/proc/thread-self/fd");
  if (fds == nullptr) return std::nullopt;
  std::optional<GrpcPoller> found;
  while (const dirent* const entry = found ? nullptr : readdir(fds)) {
    const int fd = atoi(entry->d_name);  // 0 for "." and ".."
    if (IsOpenAs(fd, kEpoll)) found = ReadSet(fd, IsInGrpc);
  }
  closedir(fds);
  return found;
}

bool IsOpen(const GrpcPoller& poller) {
  if (!IsOpenAs(poller.epoll_fd, kEpoll)) return false;
  const auto found = ReadSet(poller.epoll_fd, [&](uint64_t data) { return data == poller.data; });
  return found && found->wakeup_fd == poller.wakeup_fd;
}

bool ReplaceGrpcPoller(const GrpcPoller& poller) {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  if (set < 0) return false;
  epoll_event event = {};
  event.events = poller.events;
  event.data.u64 = poller.data;
  const bool made = Move(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), poller.wakeup_fd) &&
                    epoll_ctl(set, EPOLL_CTL_ADD, poller.wakeup_fd, &event) == 0;
  return Move(set, poller.epoll_fd) && made;
}

}  // namespace ranklog::internal
