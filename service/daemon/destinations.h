// Joins the delivery loop to the trackers: the one place of the daemon that knows which there are.

#ifndef SERVICE_DAEMON_DESTINATIONS_H_
#define SERVICE_DAEMON_DESTINATIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/deliver/credentials.h"
#include "service/ingest/attach.h"
#include "service/pipeline/deliver_loop.h"

namespace ranklog::daemon {

// `count` workers, each with its own reader of `state_dir` and its own connections. `credentials`
// outlives them.
absl::StatusOr<std::vector<pipeline::DeliverLoop::Worker>> MakeWorkers(
    int count, const std::string& state_dir, const deliver::CredentialStore* credentials,
    absl::Duration wandb_transmit_interval);

// What ingest may do with credentials. `store` outlives it.
ingest::Credentials IngestCredentials(deliver::CredentialStore* store);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_DESTINATIONS_H_
