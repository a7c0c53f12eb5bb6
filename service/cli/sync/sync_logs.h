// `ranklog sync PATH...`: delivers the runs whose `.wandb` logs lie at the paths.

#ifndef SERVICE_CLI_SYNC_SYNC_LOGS_H_
#define SERVICE_CLI_SYNC_SYNC_LOGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/cli/node/globals.h"
#include "service/import/run_logs.h"

namespace ranklog::cli {

struct LogSyncFlags {
  std::vector<std::string> paths;
  bool all = false;  // the run directories below the current directory, or $WANDB_DIR
  std::vector<std::string> include;  // globs of directory names; empty: all
  std::vector<std::string> exclude;
  imports::Target instead{};
  bool include_synced = false;
  bool dry_run = false;
  bool live = false;
  bool json = false;
  uint64_t parallel = 5;
  std::string to;        // kind of the destination; empty: the usual one
  std::string base_url;  // of its server; empty: as for a rank
  absl::Duration timeout = absl::Minutes(2);
};

// Whether a word of the command line is a path, not a run: it exists, or has a slash.
bool IsLogPath(const std::string& word);

// Prints a table with a line for each log, or with `json` an array of runs. OK if everything has arrived, or a dry run could read
// everything.
absl::Status SyncLogs(const Globals& globals, const LogSyncFlags& flags);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_SYNC_LOGS_H_
