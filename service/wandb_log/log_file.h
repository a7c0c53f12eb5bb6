// A `.wandb` log as a sequence of records, each any bytes (a serialized wandb_internal.Record, see
// README.md). One process writes; others may read at the same time.
//
// Not thread-safe.

#ifndef SERVICE_WANDB_LOG_LOG_FILE_H_
#define SERVICE_WANDB_LOG_LOG_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "service/base/unique_fd.h"

namespace ranklog::wandb_log {

class LogWriter {
 public:
  // Creates `path`, mode 0666 minus the umask, with the file header.
  //   kAlreadyExists      it exists
  //   kUnavailable        another error of the file system, as in all functions below
  //   kResourceExhausted  the disk is full, as in all functions below
  static absl::StatusOr<std::unique_ptr<LogWriter>> Create(const std::string& path);

  // Continues `path`: cuts it at `end`, the offset() of a reader, and appends there. 0 keeps
  // nothing.
  //   kNotFound  it does not exist
  static absl::StatusOr<std::unique_ptr<LogWriter>> Continue(const std::string& path, uint64_t end);

  // Appends a record. It stays in memory until a block is full or Flush() is called. After an error,
  // the file may end with a part of a record: go on with Continue() at the last end() that was
  // flushed.
  absl::Status Append(absl::string_view record);

  // Writes all appended records, so that readers see them. With `sync`, they survive a power cut,
  // if the file's name does.
  absl::Status Flush(bool sync);

  // The size of the file once all appended records are written.
  uint64_t end() const { return written_ + buffer_.size(); }

 private:
  LogWriter(std::string path, UniqueFd fd, uint64_t written)
      : path_(std::move(path)), fd_(std::move(fd)), written_(written) {}
  absl::Status Write();

  const std::string path_;
  const UniqueFd fd_;
  uint64_t written_;    // bytes in the file
  std::string buffer_;  // bytes that follow them
};

class LogReader {
 public:
  // Opens `path`; `from_offset` is 0 or an earlier offset() of a reader of this file.
  //   kNotFound         it does not exist
  //   kInvalidArgument  it is not a `.wandb` log, or its version is unknown
  //   kDataLoss         it is shorter than the file header
  //   kUnavailable      another error of the file system
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(const std::string& path,
                                                         uint64_t from_offset = 0);

  // The next record; nullopt at the end of the file. Another call tries the same place again, so it
  // returns what a writer has added since.
  //   kDataLoss     a damaged or incomplete record is next; the message names the file, the place
  //                 and the damage
  //   kUnavailable  another error of the file system
  absl::StatusOr<absl::optional<std::string>> Next();

  // The end of the last record that Next() returned.
  uint64_t offset() const { return offset_; }

  // After kDataLoss: the file ends within the record, so that a live writer may complete it.
  bool torn() const { return torn_; }

 private:
  LogReader(std::string path, UniqueFd fd, uint64_t offset)
      : path_(std::move(path)), fd_(std::move(fd)), offset_(offset) {}
  absl::StatusOr<absl::optional<std::string>> Find();
  absl::StatusOr<absl::string_view> At(uint64_t offset);
  absl::Status Damaged(uint64_t place, absl::string_view what) const;
  absl::Status Torn(uint64_t place, absl::string_view what);

  const std::string path_;
  const UniqueFd fd_;
  uint64_t offset_;
  bool torn_ = false;
  std::string block_;  // the last block that was read, as far as the file had it
  uint64_t block_start_ = 0;
};

}  // namespace ranklog::wandb_log

#endif  // SERVICE_WANDB_LOG_LOG_FILE_H_
