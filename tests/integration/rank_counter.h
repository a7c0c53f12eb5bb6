// The counters that a counting rank shares with its test, in a file that both map. They are correct
// at every moment, also after SIGKILL.

#ifndef TESTS_INTEGRATION_RANK_COUNTER_H_
#define TESTS_INTEGRATION_RANK_COUNTER_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace ranklog::testing {

struct RankCounter {
  std::atomic<uint64_t> returned;  // calls of Log() that returned true
  std::atomic<uint64_t> refused;   // calls that returned false
  std::atomic<uint64_t> limit;     // set by the test: wait after so many rows; 0: no limit
  std::atomic<uint32_t> stop;      // set by the test: call Finish(0) and end
};

// Maps the file, and makes it if needed. Returns null on failure.
inline RankCounter* MapRankCounter(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(RankCounter)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(RankCounter), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<RankCounter*>(memory);
}

}  // namespace ranklog::testing

#endif  // TESTS_INTEGRATION_RANK_COUNTER_H_
