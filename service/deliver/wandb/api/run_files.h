// Asks where to upload files of a run.

#ifndef SERVICE_DELIVER_WANDB_API_RUN_FILES_H_
#define SERVICE_DELIVER_WANDB_API_RUN_FILES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

struct UploadUrls {
  std::vector<std::pair<std::string, std::string>> headers;  // of each upload
  std::map<std::string, std::string> urls;                   // by name; absent: it is not accepted
};
std::string RunFilesBody(const std::string& entity, const std::string& project,
                         const std::string& run_id, const std::vector<std::string>& names);
// Parses an answer with code 200.
//   kFailedPrecondition  the server reports errors; the message contains them
//   kInternal            not the answer to this query
absl::StatusOr<UploadUrls> ParseRunFiles(absl::string_view body);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_RUN_FILES_H_
