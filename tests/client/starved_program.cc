// A trainer that runs out of a resource while its sender works, and later has enough of it again.
//
//   starved_program descriptors N first|again   N are left
//   starved_program memory N first|again        N MiB of address space are left
//   starved_program allocation N                the sender's N-th allocation fails
//
// `first`: from before Init() on. `again`: the sender was connected, and must connect again because
// the connection broke. Prints the number of logged rows. Exit code 0 if these are durable in the end;
// for `allocation`, if it reaches its end at all.

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <string>

#include "ranklog/ranklog.h"

namespace {

// The address range of libranklog.so, which excludes gRPC's libraries.
uintptr_t library_begin = 0, library_end = 0;
std::atomic<long> allocations_left = -1;  // of the sender; negative: all succeed
std::atomic<bool> failed = false;

int FindLibrary(dl_phdr_info* info, size_t, void*) {
  if (strstr(info->dlpi_name, "libranklog.so") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    library_begin = info->dlpi_addr + part.p_vaddr;
    library_end = library_begin + part.p_memsz;
  }
  return 1;
}

bool IsSendersThread() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return strcmp(name, "ranklog") == 0;
}

void* Allocate(size_t size, void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (allocations_left >= 0 && address >= library_begin && address < library_end &&
      IsSendersThread() && allocations_left-- == 0) {
    failed = true;
    throw std::bad_alloc();
  }
  void* const memory = malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inline: GCC would take the two for a mismatched pair wherever it inlines only one of them.
[[gnu::noinline]] void* operator new(size_t size) {
  return Allocate(size, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new[](size_t size) {
  return Allocate(size, __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { free(memory); }

namespace {

bool IsDurable(ranklog::FlushResult result) { return result == ranklog::FlushResult::kDurable; }

long LogRows(ranklog::Run& run, long count) {
  long logged = 0;
  for (long i = 0; i < count; ++i) logged += run.Log({{"loss", i}});
  return logged;
}

// Returns one more than the highest descriptor, after taking all lower ones.
rlim_t UsedDescriptors() {
  int highest = 2;
  for (int fd = 0; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) highest = fd;
  }
  int fd = 0;
  while ((fd = open("/dev/null", O_RDONLY)) < highest) {
  }
  close(fd);
  return static_cast<rlim_t>(highest) + 1;
}

rlim_t UsedMemory() {
  unsigned long long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (fscanf(file, "%llu", &pages) != 1) abort();
  fclose(file);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void BreakConnections() {
  for (int fd = 3; fd < 1000; ++fd) {
    sockaddr_un peer = {};
    socklen_t size = sizeof peer;
    const bool connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (connected && peer.sun_family == AF_UNIX) shutdown(fd, SHUT_RDWR);
  }
}

int Starve(const std::string& what, long left, bool again) {
  const auto resource = what == "memory" ? RLIMIT_AS : RLIMIT_NOFILE;
  rlimit limit;
  getrlimit(resource, &limit);
  // A user sets the limit of memory before the program starts, and the program uses it up.
  if (what == "memory") limit.rlim_cur = rlim_t{16} << 30;
  setrlimit(resource, &limit);
  const rlim_t enough = limit.rlim_cur;
  ranklog::Run run;
  long logged = 0;
  if (again) {
    run = ranklog::Init(ranklog::Settings::FromEnvironment());
    logged += LogRows(run, 10);
    if (!IsDurable(run.Flush(std::chrono::seconds(30)))) return 10;
  }
  limit.rlim_cur = what == "memory" ? UsedMemory() + (static_cast<rlim_t>(left) << 20)
                                    : UsedDescriptors() + static_cast<rlim_t>(left);
  setrlimit(resource, &limit);
  if (again) {
    BreakConnections();
    logged += LogRows(run, 10);  // the sender notices when it sends
    for (int i = 0; i < 300 && run.stats().connected; ++i) usleep(1000);
  } else {
    run = ranklog::Init(ranklog::Settings::FromEnvironment());
  }
  if (!again) logged += LogRows(run, 10);
  ranklog::Stats starved = run.stats();
  for (int i = 0; i < 1000 && logged > 0 && !starved.connected && starved.last_error.empty(); ++i) {
    run.Flush(std::chrono::milliseconds(10));
    starved = run.stats();
  }
  limit.rlim_cur = enough;
  setrlimit(resource, &limit);
  const bool has_run = !run.settings().project.empty();
  if (!has_run) run = ranklog::Init(ranklog::Settings::FromEnvironment());
  logged += LogRows(run, 10);
  const bool durable = IsDurable(run.Finish(0));
  printf("%ld rows; while short: %s\n", logged,
         starved.connected ? "connected" : starved.last_error.c_str());
  return durable ? 0 : 3;
}

int FailAllocation(long number) {
  dl_iterate_phdr(FindLibrary, nullptr);
  if (library_begin == 0) return 11;
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  allocations_left = number;
  run.Config({{"lr", 0.5}});
  const long logged = LogRows(run, 10);
  const ranklog::FlushResult result = run.Finish(0);
  printf("%ld rows, %s, %s: %s\n", logged, failed ? "failed" : "not failed",
         IsDurable(result) ? "durable" : "spooled", run.stats().last_error.c_str());
  return 0;
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  const long number = atol(argv[2]);
  if (what == "allocation") return FailAllocation(number);
  return Starve(what, number, strcmp(argv[3], "again") == 0);
}
