// The part of a file that libcurl sends as the body of a request.

#ifndef SERVICE_DELIVER_HTTP_FILE_BODY_H_
#define SERVICE_DELIVER_HTTP_FILE_BODY_H_

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "service/base/unique_fd.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver {

class FileBody {
 public:
  absl::Status Open(const FileRange& range);
  // What went wrong while it was read.
  const std::string& error() const { return error_; }

  // libcurl's callbacks. `user` is the FileBody.
  static size_t Read(char* buffer, size_t size, size_t count, void* user);
  // curl sends the body again if the server had closed a kept connection.
  static int Seek(void* user, curl_off_t offset, int origin);

 private:
  FileRange range_;
  UniqueFd fd_;
  uint64_t at_ = 0;  // in the range
  std::string error_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_FILE_BODY_H_
