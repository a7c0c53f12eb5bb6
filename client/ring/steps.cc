#include "client/ring/steps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "absl/strings/str_cat.h"
#include "client/base/descriptor.h"
#include "client/base/process.h"

namespace ranklog::internal {
namespace {

// Nobody can shorten a sealed file, so no access to the memory fails.
constexpr int kStepsSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Returns -1 if there is none.
int MakeStepsFile(size_t bytes) {
  if (bytes > MostFileBytes()) return -1;
  const int fd = AboveStandard(memfd_create("ranklog-steps", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 && fcntl(fd, F_ADD_SEALS, kStepsSeals) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

void* MapSteps(size_t bytes, int fd) {
  const int how = MAP_SHARED | MAP_POPULATE | (fd < 0 ? MAP_ANONYMOUS : 0);
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, how, fd, 0);
}

}  // namespace

std::unique_ptr<SharedSteps> SharedSteps::Create() {
  int fd = MakeStepsFile(sizeof(Memory));
  void* page = MapSteps(sizeof(Memory), fd);
  if (page == MAP_FAILED && fd >= 0) {
    close(fd);
    fd = -1;
    page = MapSteps(sizeof(Memory), fd);
  }
  if (page == MAP_FAILED) return nullptr;
  auto* const memory = new (page) Memory();
  if (fd >= 0 && getrandom(&memory->token, sizeof memory->token, 0) < 0) memory->token = 0;
  return std::unique_ptr<SharedSteps>(new SharedSteps(memory, fd));
}

std::unique_ptr<SharedSteps> SharedSteps::Join(int64_t pid, int descriptor, uint64_t token) {
  if (token == 0) return nullptr;
  const std::string path = absl::StrCat("/proc/", pid, "/fd/", descriptor);
  // The descriptor may belong to another file by now, such as a pipe.
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  struct stat facts {};
  void* page = MAP_FAILED;
  const int seals = fcntl(fd, F_GET_SEALS);  // -1: it cannot have any
  if (seals >= 0 && (seals & kStepsSeals) == kStepsSeals && fstat(fd, &facts) == 0 &&
      facts.st_size == static_cast<off_t>(sizeof(Memory))) {
    page = MapSteps(sizeof(Memory), fd);
  }
  close(fd);
  if (page == MAP_FAILED) return nullptr;
  auto* const memory = static_cast<Memory*>(page);
  if (memory->token == token) {
    return std::unique_ptr<SharedSteps>(new SharedSteps(memory, /*fd=*/-1));
  }
  munmap(page, sizeof(Memory));
  return nullptr;
}

SharedSteps::~SharedSteps() {
  munmap(memory_, sizeof *memory_);
  if (fd_ >= 0) close(fd_);
}

uint32_t SharedSteps::AddRing() {
  uint32_t word = memory_->next.load(std::memory_order_relaxed);
  while (word < kWords) {
    if (memory_->next.compare_exchange_weak(word, word + 1, std::memory_order_relaxed)) return word;
  }
  return 0;
}

void SharedSteps::TakeTogether(int64_t step) {
  memory_->given_together.store(true, std::memory_order_relaxed);
  const int64_t taken = 2 * step + 1;
  int64_t first = memory_->words[0].load(std::memory_order_relaxed);
  while (taken > first &&
         !memory_->words[0].compare_exchange_weak(first, taken, std::memory_order_relaxed)) {
  }
}

}  // namespace ranklog::internal
