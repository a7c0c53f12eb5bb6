#include "service/pipeline/delivery/crash_marks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/file_system.h"

namespace ranklog::pipeline {
namespace {

constexpr char kMarksFile[] = "/crashes";
constexpr uint32_t kMarkMagic = 0x4d434b52;  // "RKCM"
constexpr size_t kSlots = 16;                // more than the number of workers, which is five
constexpr size_t kCrashStackBytes = 64 << 10;
constexpr int kCrashSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A mark, as stored in the file.
struct Record {
  uint32_t magic;
  int32_t signal;
  int64_t run;
  uint64_t device;  // device and inode of the store's file
  uint64_t inode;
  char kind[16];
  char version[16];
};
static_assert(sizeof(Record) == 64);

// State that the handler reads. All except `at` is written before the handler is installed, or
// while no thread has a DeliveryInProgress.
constinit thread_local const DeliveryInProgress* at = nullptr;
std::atomic<int> marks_fd{-1};
uint64_t store_device = 0;
uint64_t store_inode = 0;
std::array<struct sigaction, NSIG> actions_before;

std::string TextIn(const char (&bytes)[16]) { return std::string(bytes, strnlen(bytes, 16)); }

absl::Status Failed(const std::string& doing, const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot ", doing, " ", path, ": ", strerror(errno)));
}

}  // namespace

// Async-signal-safe.
void OnCrash(int signal, siginfo_t* info, void*) {
  // True for a fault of this thread, and for raise() and abort().
  const bool own = info->si_code > 0 || (info->si_code == SI_TKILL && info->si_pid == getpid());
  if (own && at != nullptr) {
    Record record{.magic = kMarkMagic,
                  .signal = signal,
                  .run = at->run_,
                  .device = store_device,
                  .inode = store_inode,
                  .kind = {},
                  .version = RANKLOG_VERSION};
    memcpy(record.kind, at->kind_, sizeof record.kind);
    const auto offset = static_cast<off_t>(at->slot_ * sizeof record);
    // An error cannot be reported here; the crash is then not counted.
    [[maybe_unused]] const ssize_t written = pwrite(marks_fd, &record, sizeof record, offset);
  }
  // The signal is blocked in this handler. It is delivered again at the place of the crash when the
  // handler returns.
  sigaction(signal, &actions_before[static_cast<size_t>(signal)], nullptr);
  raise(signal);
}

namespace {

void InstallHandler() {
  for (const int signal : kCrashSignals) {
    struct sigaction action {};
    action.sa_sigaction = OnCrash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_sigaction == OnCrash) continue;
    actions_before[static_cast<size_t>(signal)] = before;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

absl::StatusOr<std::vector<CrashMark>> TakeCrashMarks(const std::string& state_dir) {
  if (const int fd = marks_fd.exchange(-1); fd >= 0) close(fd);
  const std::string path = state_dir + kMarksFile;
  RETURN_IF_ERROR(storage::MakeFile(path));
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return Failed("open", path);
  std::array<Record, kSlots> records{};
  const std::array<Record, kSlots> none{};
  struct stat store {};
  // Allocates the blocks now, so that a crash can be marked on a full disk.
  if (pread(fd, &records, sizeof records, 0) < 0 ||
      pwrite(fd, &none, sizeof none, 0) != static_cast<ssize_t>(sizeof none) ||
      stat(absl::StrCat(state_dir, "/", storage::kStoreFile).c_str(), &store) != 0) {
    const absl::Status failed = Failed("clear", path);
    close(fd);
    return failed;
  }
  store_device = store.st_dev;
  store_inode = store.st_ino;
  marks_fd = fd;
  InstallHandler();
  std::vector<CrashMark> marks;
  for (const Record& record : records) {
    if (record.magic != kMarkMagic || record.device != store_device ||
        record.inode != store_inode) {
      continue;
    }
    marks.push_back({.run = record.run,
                     .kind = TextIn(record.kind),
                     .signal = record.signal,
                     .version = TextIn(record.version)});
  }
  return marks;
}

DeliveryInProgress::DeliveryInProgress(size_t worker, int64_t run, const std::string& kind)
    : slot_(worker % kSlots), run_(run) {
  kind.copy(kind_, sizeof kind_);
  at = this;
}

DeliveryInProgress::~DeliveryInProgress() { at = nullptr; }

CrashStack::CrashStack() : memory_(new char[kCrashStackBytes]) {
  stack_t stack{};
  stack.ss_sp = memory_.get();
  stack.ss_size = kCrashStackBytes;
  sigaltstack(&stack, &before_);
}

CrashStack::~CrashStack() { sigaltstack(&before_, nullptr); }

}  // namespace ranklog::pipeline
