#include "service/sample/process/process_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "service/base/unique_fd.h"
#include "service/sample/fields.h"

namespace ranklog::sample {
namespace {

absl::optional<Process> ReadProcess(int proc, const char* pid) {
  char path[sizeof(dirent::d_name) + sizeof("/stat")];
  snprintf(path, sizeof path, "%s/stat", pid);
  const UniqueFd fd(openat(proc, path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return absl::nullopt;
  char stat[2048];  // 52 numbers and a name of at most 64 bytes
  const ssize_t size = read(fd.get(), stat, sizeof stat);
  if (size <= 0) return absl::nullopt;
  return ParseProcess(absl::string_view(stat, static_cast<size_t>(size)));
}

}  // namespace

ProcessTable ProcessReader::Read() {
  if (dir_ == nullptr) dir_.reset(opendir(proc_.c_str()));
  if (dir_ == nullptr) return ProcessTable();
  rewinddir(dir_.get());
  ++calls_;
  std::vector<Process> processes;
  absl::flat_hash_set<pid_t> kernel_threads;
  while (const dirent* const entry = readdir(dir_.get())) {
    const absl::optional<uint64_t> number = NumberAt(entry->d_name);
    if (!number.has_value()) continue;
    const auto pid = static_cast<pid_t>(*number);
    if (kernel_threads_.contains(pid) && (*number + calls_) % kRecheck != 0) {
      kernel_threads.insert(pid);
      continue;
    }
    const absl::optional<Process> process = ReadProcess(dirfd(dir_.get()), entry->d_name);
    if (!process.has_value()) continue;
    if (process->kernel_thread) kernel_threads.insert(pid);
    processes.push_back(*process);
  }
  kernel_threads_ = std::move(kernel_threads);
  return ProcessTable(std::move(processes));
}

}  // namespace ranklog::sample
