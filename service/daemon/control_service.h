// Answers tools that query or change the daemon.

#ifndef SERVICE_DAEMON_CONTROL_SERVICE_H_
#define SERVICE_DAEMON_CONTROL_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/daemon/metrics/monitor.h"
#include "service/ingest/stream_registry.h"
#include "service/peer/push_loop.h"
#include "service/peer/push_receiver.h"
#include "service/pipeline/delivery/delivery_totals.h"
#include "service/storage/database/retention.h"

namespace ranklog::daemon {

class ControlService final : public v1::Control::CallbackService {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // As in AddDestinationRequest.
  struct NewDestination {
    int64_t run = 0;
    std::string kind;
    std::map<std::string, std::string> credentials;
    std::map<std::string, std::string> settings;
  };
  // Adds a destination to a run, and calls `done` from any thread.
  using AddDestinationFn = std::function<void(NewDestination to, Done done)>;
  // Removes a run, and calls `done` from any thread.
  using RemoveRunFn = std::function<void(int64_t run, storage::Removal removal, Done done)>;
  // See v1::PeerStatus.
  struct Peer {
    std::string key_file;
    std::string fingerprint;
    std::string address;
    std::string error;
    std::vector<peer::PushLoop::Link> links;
    std::vector<peer::PushReceiver::Node> nodes;
  };
  // Values that change continuously.
  struct Now {
    ingest::StreamRegistry::Attached attached;
    Monitor::View monitor;
    std::string store_error;  // empty: rows can be stored
    std::map<std::string, pipeline::DeliveryTotals::Destination> destinations;  // by kind
    std::map<int64_t, std::string> stopped_runs;  // errors by the run's id in the store
    std::map<std::string, uint64_t> counters;
    absl::optional<Peer> peer{};  // nullopt: not known
  };
  struct About {
    std::string state_dir;
    std::string started_by;  // systemd, slurm, rank, user
    int64_t start_time_us = 0;
    storage::KeepLimits keep;
    int64_t content_quota = 0;
    std::string metrics_url;           // empty: metrics are not served
    std::function<Now()> now;          // thread-safe
    AddDestinationFn add_destination;  // thread-safe
    RemoveRunFn remove_run;            // thread-safe
  };
  explicit ControlService(About about) : about_(std::move(about)) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* call,
                                   const v1::StatusRequest* request,
                                   v1::StatusReply* reply) override;
  grpc::ServerUnaryReactor* AddDestination(grpc::CallbackServerContext* call,
                                           const v1::AddDestinationRequest* request,
                                           v1::AddDestinationReply* reply) override;
  grpc::ServerUnaryReactor* RemoveRun(grpc::CallbackServerContext* call,
                                      const v1::RemoveRunRequest* request,
                                      v1::RemoveRunReply* reply) override;

 private:
  const About about_;
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONTROL_SERVICE_H_
