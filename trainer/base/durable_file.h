#ifndef TRAINER_BASE_DURABLE_FILE_H_
#define TRAINER_BASE_DURABLE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ranklog::trainer {

// Creates `path` and its missing parents; on OK they survive a power cut.
// Errors name the directory, by errno.
absl::Status CreateDirectories(const std::string& path);

// On OK, renames and new names in `directory` survive a power cut.
absl::Status SyncDirectory(const std::string& directory);

// Writes a file atomically: under a temporary name, and renames it when it is on the disk. If the
// process or the machine dies, the file is complete or absent.
//
// Not thread-safe. Errors name the file and the reason.
class DurableFile {
 public:
  // Starts `path` + ".tmp". Overwrites such a file of a killed process.
  static absl::StatusOr<DurableFile> Create(std::string path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  // Removes the temporary file, unless Commit() returned OK.
  ~DurableFile();

  absl::Status Append(const void* bytes, size_t size);
  // The path of the bytes until Commit(), for other writers to the same file.
  std::string temporary() const { return path_ + ".tmp"; }

  // On OK the file has its name, has replaced an older one, and survives a power cut. Costs two
  // fsyncs.
  absl::Status Commit();

 private:
  DurableFile(std::string path, int fd);
  absl::Status Failure(const char* verb, int error) const;

  const std::string path_;
  int fd_;  // -1: committed, or moved from
};

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_DURABLE_FILE_H_
