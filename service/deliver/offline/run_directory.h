// The directories of a run: WANDB_DIR/wandb/offline-run-YYYYMMDD_HHMMSS-ID[-N]. Each has the log
// run-ID.wandb, the folder files/ with the run's files, and artifacts/ with those of its artifacts.

#ifndef SERVICE_DELIVER_OFFLINE_RUN_DIRECTORY_H_
#define SERVICE_DELIVER_OFFLINE_RUN_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver::offline {

// Errors of all functions: kUnavailable, with the path and the reason.

// The folder of all runs below WANDB_DIR: `.wandb` if it exists, else `wandb`.
std::string FolderOfRuns(const std::string& wandb_dir);
// `run-ID.wandb`. Characters that no file name may have become `_`.
std::string LogName(const std::string& run_id);

// A run has another directory after each end. The header of the log tells which run it is, and counts
// them.
struct RunPart {
  std::string key;  // of the run: the same for each process that writes it, and for no other run
  uint64_t number = 1;

  std::string Text() const;  // of the header's `uuid`
};

struct FoundPart {
  std::string directory;  // absolute
  RunPart part;
};
// The last directory of the run `key`, or nullopt.
absl::StatusOr<absl::optional<FoundPart>> LastPart(const std::string& folder,
                                                   const std::string& run_id,
                                                   const std::string& key);

// Makes an empty directory that `wandb sync` does not see, in place of an earlier one for the key.
absl::StatusOr<std::string> MakeHidden(const std::string& folder, const std::string& key);
// Gives it its name, with `start` in local time, and points `latest-run` to it. Durable. Returns the
// new path.
absl::StatusOr<std::string> Publish(const std::string& hidden, const std::string& folder,
                                    const std::string& run_id, absl::Time start);

// Writes the body of a PUT to the file, in place of an earlier one. Durable. `may_link`: the bytes may
// stay shared with the file that the request names, which never changes.
absl::Status StoreFile(const HttpRequest& put, const std::string& path, bool may_link);

// Whether the path of a run file stays below its folder.
bool IsBelow(absl::string_view path);

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_RUN_DIRECTORY_H_
