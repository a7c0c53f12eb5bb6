// The commands of users that change a run: `ranklog sync --to`, `rm` and `prune` send them to the
// daemon.

#ifndef SERVICE_DAEMON_RUN_COMMANDS_H_
#define SERVICE_DAEMON_RUN_COMMANDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "service/daemon/control_service.h"
#include "service/deliver/credentials.h"
#include "service/ingest/notice_board.h"
#include "service/pipeline/delivery/deliver_loop.h"
#include "service/pipeline/retention_loop.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/database/retention.h"

namespace ranklog::daemon {

// Thread-safe.
class RunCommands {
 public:
  // All of them must outlive this object and the writes that it submits.
  struct Parts {
    std::string state_dir;
    deliver::CredentialStore* credentials = nullptr;
    ingest::NoticeBoard* notices = nullptr;
    pipeline::StoreLoop* store = nullptr;
    pipeline::DeliverLoop* deliver = nullptr;
    pipeline::RetentionLoop* retention = nullptr;
  };
  explicit RunCommands(Parts parts) : parts_(std::move(parts)) {}

  // Adds a destination, or tries again one that is set apart. Stores the given credentials and
  // settings. See ControlService::AddDestinationFn.
  void AddDestination(ControlService::NewDestination to, ControlService::Done done);

  // Removes a run that `removal` accepts. See ControlService::RemoveRunFn.
  void RemoveRun(int64_t run, storage::Removal removal, ControlService::Done done);

 private:
  // Checks the given settings. Stores the given key, and checks that there is a key for the run's
  // tracker.
  absl::Status CheckDestination(ControlService::NewDestination& to) const;

  const Parts parts_;
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_RUN_COMMANDS_H_
