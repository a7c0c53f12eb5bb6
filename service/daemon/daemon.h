// ranklogd without its main(): connects the parts, and starts and stops them in order.

#ifndef SERVICE_DAEMON_DAEMON_H_
#define SERVICE_DAEMON_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/daemon/config/config.h"
#include "service/daemon/control_service.h"
#include "service/daemon/metrics/metrics.h"
#include "service/daemon/metrics/monitor.h"
#include "service/daemon/run_commands.h"
#include "service/deliver/credentials.h"
#include "service/ingest/notice_board.h"
#include "service/ingest/orphans/live_rings.h"
#include "service/ingest/orphans/rank_watch.h"
#include "service/ingest/server/acceptor.h"
#include "service/ingest/server/ingest_service.h"
#include "service/ingest/stream_registry.h"
#include "service/peer/peering.h"
#include "service/pipeline/aggregate_loop.h"
#include "service/pipeline/delivery/deliver_loop.h"
#include "service/pipeline/job_end/job_end_loop.h"
#include "service/pipeline/retention_loop.h"
#include "service/pipeline/sample_loop.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/directories/spool_dirs.h"
#include "service/storage/directories/state_dirs.h"

namespace ranklog::daemon {

// Not thread-safe; use it only on main()'s thread.
class Daemon {
 public:
  // Locks and opens the store, starts all threads, and accepts ranks. The messages are meant for
  // users.
  //   kAlreadyExists      another daemon holds the state directory or listens at the socket
  //   kInvalidArgument    the socket's path is empty or too long
  //   kPermissionDenied, kFailedPrecondition, kDataLoss  from storage::Store::Open
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Config& config);
  ~Daemon();  // calls Stop()

  // Stops accepting ranks, commits what has arrived, delivers for at most `drain` to trackers and to
  // rank 0's node, as long takes what other nodes send, and closes the store.
  // Undelivered rows stay for the next start. Idempotent.
  void Stop(absl::Duration drain);

  // False: the store was removed while the daemon runs, and nothing is acknowledged any more. Call
  // Stop() and start another Daemon.
  bool StoreInPlace() const { return store_->store_in_place(); }

  // Creates the lock file of the state directory again if it was removed, and logs that. False:
  // another process holds the lock now, so call Stop().
  bool KeepLock();

  // Whether systemd listens at our address now.
  bool IsSuperseded() const { return acceptor_->superseded(); }

  // The loop that has been silent (base/pulse.h) for at least `limit`; empty if there is no such
  // loop.
  std::string HangingLoop(absl::Duration limit) const;

  // True if no rank is attached, no live run has rows to aggregate or to join with other nodes, and
  // no run waits for a tracker.
  bool IsIdle() const;

  const std::string& state_dir() const { return locked_dir_.dir; }
  // What was logged about a damaged store that Start() set aside; else empty.
  const std::string& set_aside() const { return set_aside_; }
  // Call it once a second. Updates the monitor, and the health service's state, which is serving
  // while rows can be stored.
  void Tick();

  // The socket's path. Valid until Stop().
  const std::string& address() const { return acceptor_->path(); }

 private:
  Daemon(const Config& config, storage::LockedDir place);
  // Makes the stages in the order of the flow, and starts them.
  absl::Status StartStages();
  absl::Status MakeDelivery();
  absl::Status MakeAggregation();
  absl::Status MakeIngest();
  absl::Status StartServer();
  absl::Status StartAccepting();
  std::string SocketPath() const;  // where it will listen
  // Posts notices about a delivery step to the ranks of its run.
  void PostNotices(const deliver::StepResult& step);
  // Whether all destinations of the run have all of it, its end too.
  absl::StatusOr<std::vector<model::Delivery>> DeliveriesOf(int64_t run) const;
  void Drain(absl::Duration drain);
  std::vector<model::Stream> LiveStreams() const;  // none if the store cannot be read
  // Whether all rows of running runs are aggregated.
  bool AllAggregated() const;
  // Whether a run waits only for ranks of other nodes, or for its end.
  bool AwaitsNodes() const;
  void StartMetrics();
  std::map<std::string, uint64_t> Counters() const;
  ControlService::Now StatusNow() const;
  MetricValues FiguresNow() const;

  const Config config_;
  storage::LockedDir locked_dir_;  // initialized first, destroyed last
  std::string set_aside_;
  absl::Status lock_kept_;  // result of the last KeepLock()
  deliver::CredentialStore credentials_;
  ingest::WakeEvent wake_;
  ingest::IngestCounters counters_;
  ingest::Acceptor::Counters accept_counters_;
  ingest::PeerTable peers_;
  ingest::StreamRegistry registry_;
  ingest::NoticeBoard notices_;
  std::unique_ptr<storage::SpoolDirs> spool_dirs_;
  peer::Peering peering_;
  // In the order of the flow; each uses only the members above it.
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<pipeline::DeliverLoop> deliver_;
  std::unique_ptr<pipeline::JobEndLoop> job_ends_;
  std::unique_ptr<pipeline::AggregateLoop> aggregate_;
  std::unique_ptr<pipeline::RetentionLoop> retention_;
  std::unique_ptr<pipeline::SampleLoop> samples_;
  std::unique_ptr<ingest::Attacher> attacher_;
  std::unique_ptr<ingest::ContentDir> content_;
  ingest::IngestContext context_;
  std::unique_ptr<ingest::LiveRings> live_rings_;
  std::unique_ptr<ingest::RankWatch> watch_;
  std::unique_ptr<ingest::IngestService> ingest_;
  std::unique_ptr<RunCommands> run_commands_;
  std::unique_ptr<ControlService> control_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ingest::Acceptor> acceptor_;
  const int64_t start_time_us_;
  Monitor monitor_;
  std::unique_ptr<MetricsServer> metrics_;  // last: it reads all members above
  bool stopped_ = false;
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_DAEMON_H_
