// A file that the user names to have something written to it.

#ifndef SERVICE_CLI_OUTPUT_FILE_H_
#define SERVICE_CLI_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::cli {

// Not thread-safe. Closed when it goes; what Close() did not answer for may not have been written.
class OutputFile {
 public:
  // Makes the file, or empties the one that is there. In a directory that others may write, such as
  // /tmp, what is there must be this user's own regular file with no other name: nobody else
  // chooses what is written over, and a pipe of theirs is not waited for.
  //   kPermissionDenied  it is not, or it cannot be written
  static absl::StatusOr<OutputFile> Open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  //   kResourceExhausted  it cannot be written
  absl::Status Write(absl::string_view text);
  absl::Status Close();

 private:
  OutputFile(int fd, const std::string& path) : fd_(fd), path_(path) {}
  absl::Status Failed(int error) const;

  int fd_;
  std::string path_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_FILE_H_
