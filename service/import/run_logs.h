// The `.wandb` logs at the paths that a user names, and the runs that they belong to.

#ifndef SERVICE_IMPORT_RUN_LOGS_H_
#define SERVICE_IMPORT_RUN_LOGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {

// A log of one part of a run: a resumed run has several.
struct RunLog {
  std::string path;  // of the log
  std::string dir;   // that holds it
  std::string name;  // of that directory
  uint64_t bytes = 0;
  // The same for every copy of the log, wherever it lies. Never 0.
  uint64_t id = 0;
  wandb_internal::RunRecord run;  // its first one
  int64_t started_us = 0;         // Unix time; 0: unknown

  std::string marker() const { return path + ".synced"; }
  bool IsSynced() const;
  // The first step that the log's rows may have in the run. The official client keeps it beside the
  // log once it has asked the server. KeepStartingStep() does nothing if the file cannot be written.
  absl::optional<int64_t> StartingStep() const;
  void KeepStartingStep(int64_t step) const;
};

// The paths of the logs at `path`: the file itself, the `*.wandb` of the directory, or those of its
// direct subdirectories (`*/*.wandb`), sorted. Of these, the ones of online runs are left out: their
// server has them.
//   kNotFound  there is none, or no such path
absl::StatusOr<std::vector<std::string>> FindLogs(const std::string& path);

// Reads the log as far as its first run record.
//   kDataLoss            it is damaged or torn before that
//   kFailedPrecondition  it has none
//   others               those of wandb_log::LogReader::Open()
absl::StatusOr<RunLog> ReadRunLog(const std::string& path);

// FNV-1a, 64 bits: the same in every program.
uint64_t StableHash(absl::string_view bytes);

// Where a run goes. Empty members are not given.
struct Target {
  std::string entity;
  std::string project;
  std::string run_id;

  friend auto operator<=>(const Target&, const Target&) = default;
};
// That of the log's run, with what `instead` has.
Target TargetOf(const RunLog& log, const Target& instead);

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_RUN_LOGS_H_
