// The download of a version of an artifact, for every kind of destination that has artifacts.

#ifndef SERVICE_DELIVER_DOWNLOAD_H_
#define SERVICE_DELIVER_DOWNLOAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "service/deliver/read_back.h"

namespace ranklog::deliver {

struct DownloadOptions {
  std::string name;    // as the destination names it; W&B: [[ENTITY/]PROJECT/]NAME[:ALIAS]
  std::string entity;  // those of a name without them; may be empty
  std::string project;
  std::string type;  // empty: any
  std::string root;  // the directory; made if it is absent
  // Its `timeout` is the limit for the retries of a request. Its `progress` counts bytes.
  ReadBackOptions asking;
  size_t piece_bytes = 16 << 20;  // of a file, per request
};

struct DownloadReport {
  std::string version;  // "ENTITY/PROJECT/NAME:v3"
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t present = 0;                 // of the files: were there already
  std::vector<std::string> references;  // URLs of entries that are not the server's: not downloaded
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_DOWNLOAD_H_
