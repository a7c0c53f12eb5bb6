// Reads the processes of a node from /proc. Without libproc2: it always reads /proc, never a
// directory that stands for it, and each distribution has another version of it (libprocps.so.7,
// libprocps.so.8, libproc2.so.0), while the format of /proc/PID/stat never changes.

#ifndef SERVICE_SAMPLE_PROCESS_PROCESS_READER_H_
#define SERVICE_SAMPLE_PROCESS_PROCESS_READER_H_

#include <dirent.h>

#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "service/sample/process/process_table.h"

namespace ranklog::sample {

// Not thread-safe.
class ProcessReader {
 public:
  explicit ProcessReader(std::string proc) : proc_(std::move(proc)) {}

  // Costs three system calls per process. Leaves out processes that this user may not read
  // (hidepid) and that end meanwhile. Without /proc, the table is empty.
  //
  // A large machine has thousands of kernel threads, so each is read only in one of kRecheck calls.
  // A process that gets the pid of an ended kernel thread is missing for that long at most.
  ProcessTable Read();

  static constexpr uint32_t kRecheck = 16;

 private:
  struct CloseDir {
    void operator()(DIR* dir) const { closedir(dir); }
  };

  std::string proc_;
  std::unique_ptr<DIR, CloseDir> dir_;
  uint32_t calls_ = 0;
  absl::flat_hash_set<pid_t> kernel_threads_;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_PROCESS_PROCESS_READER_H_
