// A file that the user names for output.

#ifndef SERVICE_CLI_OUTPUT_OUTPUT_FILE_H_
#define SERVICE_CLI_OUTPUT_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::cli {

// Not thread-safe. The destructor closes the file. Data is only known to be written after Close()
// returned OK.
class OutputFile {
 public:
  // Creates or truncates the file. In a directory that others may write, such as /tmp, an existing
  // file must be this user's own regular file with no other name. So no other user can choose which
  // file is overwritten, or block the command with a pipe.
  //   kPermissionDenied  the existing file is not such a file, or the file cannot be written
  static absl::StatusOr<OutputFile> Open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Both return:
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

#endif  // SERVICE_CLI_OUTPUT_OUTPUT_FILE_H_
