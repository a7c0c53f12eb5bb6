#include "service/peer/peering.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/peer/tls/peer_credentials.h"

namespace ranklog::peer {
namespace {

std::string ThisNode() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

uint64_t RandomNumber() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;
}

}  // namespace

void Peering::Load() {
  if (options_.key_file.empty()) return;
  absl::StatusOr<PeerKey> key = PeerKey::Load(options_.key_file);
  if (key.ok()) {
    key_ = *std::move(key);
    return;
  }
  // Without a file, the user has not asked for it, unless he named it.
  if (absl::IsNotFound(key.status()) && !options_.key_required) return;
  off_ = std::string(key.status().message());
  spdlog::error("the nodes of a job are not joined: {}", off_);
}

absl::Status Peering::Start(const Parts& parts) {
  if (!on()) return absl::OkStatus();
  receiver_ = std::make_unique<PushReceiver>(PushReceiver::Options{.store = parts.store,
                                                                   .attacher = parts.attacher,
                                                                   .run_changed = parts.run_changed,
                                                                   .steady_clock = SteadyNow});
  service_ = std::make_unique<PeerService>(receiver_.get());
  homes_ = std::make_unique<Homes>(
      [this](const HostPort& address) { return MakePeerChannel(*key_, address, absl::Now()); },
      kRenewAfter);
  ASSIGN_OR_RETURN(std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(parts.state_dir));
  PushLoop::Options options;
  options.part.node = ThisNode();
  options.part.sender = RandomNumber();
  options.home = options_.home;
  options.port = options_.port;
  options.steady_clock = SteadyNow;
  options.on_trouble = parts.on_trouble;
  loop_ = std::make_unique<PushLoop>(
      parts.store, std::move(reader),
      [this](const HostPort& address, const v1::PushRequest& request, Homes::Done done) {
        homes_->Push(address, request, std::move(done));
      },
      options);
  loop_->Start();
  if (!options_.listen) return absl::OkStatus();
  PeerListener::Options listen;
  listen.address = *options_.listen;
  ASSIGN_OR_RETURN(listener_,
                   PeerListener::Start(listen, &*key_, service_.get(), &listener_counters_));
  return absl::OkStatus();
}

void Peering::Stop() {
  if (listener_ != nullptr) listener_->Stop();
  if (loop_ != nullptr) loop_->Stop();
  homes_.reset();
}

void Peering::Notify(int64_t run) {
  if (loop_ != nullptr) loop_->Notify(run);
}

absl::Time Peering::Heard(const model::Stream& stream) const {
  return receiver_ == nullptr ? absl::InfinitePast() : receiver_->Heard(stream);
}

absl::Duration Peering::Silence(absl::Time steady_now) const {
  absl::Duration longest = absl::ZeroDuration();
  if (loop_ != nullptr) longest = loop_->Silence(steady_now);
  if (listener_ != nullptr) longest = std::max(longest, listener_->Silence(steady_now));
  return longest;
}

Peering::State Peering::state() const {
  State state;
  if (on()) state.fingerprint = key_->fingerprint();
  state.error = off_;
  if (listener_ != nullptr) {
    state.error = listener_->error();
    if (state.error.empty()) state.listens = listener_->address().Text();
  }
  if (loop_ != nullptr) {
    state.links = loop_->Links();
    state.late_rows = loop_->late_rows();
  }
  if (receiver_ != nullptr) {
    state.nodes = receiver_->Nodes();
    state.requests = receiver_->counters().requests;
    state.rows = receiver_->counters().rows;
    state.refused_streams = receiver_->counters().refused;
  }
  state.refused_connections = listener_counters_.refused;
  return state;
}

}  // namespace ranklog::peer
