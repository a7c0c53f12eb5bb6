// How a daemon ends, and what it has left to do.

#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/daemon/daemon.h"
#include "service/storage/store_reader.h"

namespace ranklog::daemon {
namespace {

// Time for calls that wait for a commit. Streams are cut off, because the ranks send unacknowledged
// rows again.
constexpr std::chrono::milliseconds kShutdown(200);

constexpr absl::Duration kAggregateWait = absl::Seconds(2);

bool IsAggregated(const model::Stream& stream) {
  return stream.aggregated_seq >= stream.durable_seq;
}

}  // namespace

void Daemon::Stop(absl::Duration drain) {
  if (std::exchange(stopped_, true)) return;
  if (store_ != nullptr) store_->StopRetrying();
  if (server_ != nullptr) server_->GetHealthCheckService()->Shutdown();
  if (acceptor_ != nullptr) acceptor_->Stop();
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdown);
  if (watch_ != nullptr) watch_->Stop();
  if (live_rings_ != nullptr) live_rings_->Stop();
  if (retention_ != nullptr) retention_->Stop();
  if (samples_ != nullptr) samples_->Stop();
  if (drain > absl::ZeroDuration() && aggregate_ != nullptr) Drain(drain);
  peering_.Stop();
  if (aggregate_ != nullptr) aggregate_->Stop();
  if (job_ends_ != nullptr) job_ends_->Stop();
  if (deliver_ != nullptr) {
    deliver_->Stop();
    // After an orderly stop, earlier and later crashes do not count as consecutive.
    store_->Submit(
        {.apply = [](storage::Store& store) { return store.ForgetCrashes(); }, .done = nullptr});
  }
  if (store_ != nullptr) store_->Stop();
}

void Daemon::Drain(absl::Duration drain) {
  const absl::Time deadline = SteadyNow() + drain;
  // The loops know all that is committed once this write is answered.
  const auto settle = [this] {
    store_->SubmitAndWait([](storage::Store&) { return absl::OkStatus(); }).IgnoreError();
  };
  settle();
  // Does not wait long for a step that waits for a rank, because ranks are no longer connected.
  const absl::Time aggregated = std::min(deadline, SteadyNow() + kAggregateWait);
  while (!AllAggregated() && SteadyNow() < aggregated) absl::SleepFor(absl::Milliseconds(20));
  deliver_->Drain(absl::ZeroDuration());  // begins: trackers do not wait for nodes
  const auto nodes_wait = [this] { return !peering_.sent() || AwaitsNodes(); };
  while ((nodes_wait() || !peering_.told()) && SteadyNow() < deadline)
    absl::SleepFor(absl::Milliseconds(50));
  settle();
  bool all = deliver_->Drain(deadline - SteadyNow());
  all = all && !AwaitsNodes() && AllAggregated();
  std::vector<peer::PushLoop::Link> links = peering_.state().links;
  std::erase_if(links, [](const peer::PushLoop::Link& link) { return !link.waits || link.own; });
  spdlog::info(all && links.empty() ? "all rows are delivered"
                                    : "not all rows are delivered; the store keeps the rest");
  for (const peer::PushLoop::Link& link : links) {
    spdlog::info("run {}: {} rows wait for rank 0's node{}{}", link.run_id, link.waiting_rows,
                 link.home.empty() ? "" : " at " + link.home,
                 link.error.empty() ? "" : ": " + link.error);
  }
}

bool Daemon::IsIdle() const {
  // While it cannot store, ranks wait to attach, and rings of dead ranks to be read.
  if (registry_.CountAttached().streams > 0 || !store_->counters().last_error.empty() ||
      deliver_->counters().pending > 0 || peering_.busy()) {
    return false;
  }
  const std::vector<model::Stream> streams = LiveStreams();
  return std::all_of(streams.begin(), streams.end(), [this](const model::Stream& stream) {
    const bool is_live_peer =
        peering_.on() && !stream.peer.empty() && stream.state == model::StreamState::kLive;
    return IsAggregated(stream) && !is_live_peer;
  });
}

std::vector<model::Stream> Daemon::LiveStreams() const {
  const auto reader = storage::StoreReader::Open(locked_dir_.dir);
  if (!reader.ok()) return {};
  return (*reader)->LiveStreams().value_or(std::vector<model::Stream>());
}

bool Daemon::AllAggregated() const {
  const std::vector<model::Stream> streams = LiveStreams();
  return std::all_of(streams.begin(), streams.end(), IsAggregated);
}

bool Daemon::AwaitsNodes() const {
  if (!peering_.takes()) return false;
  std::map<int64_t, bool> own_live;  // by running run
  for (const model::Stream& stream : LiveStreams()) {
    own_live[stream.run] |= stream.peer.empty() && stream.state == model::StreamState::kLive;
  }
  return std::any_of(own_live.begin(), own_live.end(), [](const auto& run) { return !run.second; });
}

}  // namespace ranklog::daemon
