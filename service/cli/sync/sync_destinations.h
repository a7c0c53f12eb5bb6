// Where the runs of `ranklog sync` go: --to, --base-url and --set.

#ifndef SERVICE_CLI_SYNC_SYNC_DESTINATIONS_H_
#define SERVICE_CLI_SYNC_SYNC_DESTINATIONS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/cli/node/globals.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/deliver/destination.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {

class SyncDestinations {
 public:
  struct Flags {
    std::string to;
    std::string base_url;
    std::vector<std::string> set;  // VARIABLE=VALUE
  };

  // `named`: the number of runs that the user named; 0: all runs.
  SyncDestinations(const Globals& globals, std::string state_dir, const Flags& flags, size_t named)
      : globals_(globals), state_dir_(std::move(state_dir)), flags_(flags), named_(named) {}

  // Of the functions below: `pipeline` delivers the runs; null: the process that holds the store does.

  // Sets the address of --base-url.
  absl::Status SetAddress(const std::vector<model::Run>& runs, SyncPipeline* pipeline) const;

  // Adds the destination of --to, with the settings of --set. Skips runs that have it, and parts of a
  // run whose rank 0 is delivered by another node, except for a destination that takes these. For a
  // named run, tells of variables that are not used, and tries a delivery that is set apart again.
  absl::Status Apply(const model::Run& run, storage::StoreReader& reader, SyncPipeline* pipeline);

 private:
  std::map<std::string, std::string> SettingsFor(const model::Run& run,
                                                 const deliver::Destination& to) const;
  absl::Status Add(model::Run run, storage::StoreReader& reader, SyncPipeline* pipeline);
  absl::Status WarnOfVariables(const model::Run& run, storage::StoreReader& reader) const;
  absl::Status AwaitEnd(const model::Run& run, storage::StoreReader& reader,
                        SyncPipeline* pipeline) const;
  absl::Status ReadSet();
  absl::Status CheckTaken(const model::Run& run, const std::string& kind,
                          const std::map<std::string, std::string>& settings,
                          storage::StoreReader& reader) const;
  absl::Status TryAgain(const model::Run& run, storage::StoreReader& reader,
                        SyncPipeline* pipeline) const;

  const Globals& globals_;
  const std::string state_dir_;
  const Flags& flags_;
  const size_t named_;
  struct {
    std::string kind;
    std::map<std::string, std::string> settings;
  } set_;  // of --set
};

// Whether the daemon will soon end the run: its ranks have ended, and the daemon only waits for others
// that may still attach.
absl::StatusOr<bool> EndsSoon(const std::string& state_dir, const model::Run& run,
                              storage::StoreReader& reader);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SYNC_SYNC_DESTINATIONS_H_
