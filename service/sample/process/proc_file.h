// Reads small files of /proc and /sys with few system calls.

#ifndef SERVICE_SAMPLE_PROCESS_PROC_FILE_H_
#define SERVICE_SAMPLE_PROCESS_PROC_FILE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "service/base/unique_fd.h"

namespace ranklog::sample {

// Larger files are cut off after this size. /proc/stat of a machine with 1,000 cores has 250 KB.
inline constexpr size_t kMaxProcFile = 1 << 20;

// A file that is read again and again, by two system calls if it is small. It stays open, so `path`
// must name the same file for ever, as /proc/meminfo does. After an error it is opened again.
class ProcFile {
 public:
  explicit ProcFile(std::string path) : path_(std::move(path)) {}

  // Returns the content, which is valid until the next call; empty if the file cannot be read.
  absl::string_view Read();

 private:
  std::string path_;
  UniqueFd fd_;
  std::string content_;
};

// Returns the content of a file; empty if it cannot be read.
std::string ReadProcFile(const std::string& path);
// The non-negative integer that a file contains; nullopt for other content, such as "max".
absl::optional<uint64_t> ReadNumber(const std::string& path);

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_PROCESS_PROC_FILE_H_
