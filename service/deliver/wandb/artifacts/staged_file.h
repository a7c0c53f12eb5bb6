// Reads a staged file piece by piece, for its MD5.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_STAGED_FILE_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_STAGED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/unique_fd.h"
#include "service/deliver/wandb/artifacts/md5.h"

namespace ranklog::deliver::wandb {

class StagedFile {
 public:
  // `part_bytes` above 0: also the MD5 of each part of this size.
  //   kDataLoss  the file is absent, not a plain file, or not of this size
  absl::Status Open(const std::string& dir, const std::string& name, uint64_t bytes,
                    uint64_t part_bytes);
  bool is_open() const { return fd_.valid(); }
  // Reads about `bytes` more. True: the file was read; it is closed again.
  absl::StatusOr<bool> Read(size_t bytes);
  // Of the file that was read; 16 bytes each.
  const std::string& digest() const { return digest_; }
  std::vector<std::string> TakeParts() { return std::exchange(parts_, {}); }

 private:
  UniqueFd fd_;
  std::string name_;
  uint64_t bytes_ = 0;
  uint64_t part_bytes_ = 0;
  uint64_t at_ = 0;
  Md5 md5_;
  Md5 part_md5_;
  std::string digest_;
  std::vector<std::string> parts_;
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_STAGED_FILE_H_
