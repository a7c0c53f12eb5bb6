// Joins this daemon with those of a job's other nodes, if there is a peer key: sends its parts, and
// takes those of others.

#ifndef SERVICE_PEER_PEERING_H_
#define SERVICE_PEER_PEERING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/base/host_port.h"
#include "service/ingest/attach.h"
#include "service/peer/homes.h"
#include "service/peer/peer_service.h"
#include "service/peer/push_loop.h"
#include "service/peer/push_receiver.h"
#include "service/peer/tls/peer_key.h"
#include "service/peer/tls/peer_listener.h"
#include "service/pipeline/store_loop.h"

namespace ranklog::peer {

// Load() and Start() in this order, on one thread. The other functions are thread-safe after that.
class Peering {
 public:
  struct Options {
    std::string key_file;             // empty: off
    bool key_required = false;        // a missing file is an error
    absl::optional<HostPort> listen;  // nullopt: it takes no parts of others
    absl::optional<HostPort> home;    // of rank 0's node, whatever the ranks say
    int port = 0;                     // of the homes that the ranks name
  };
  struct Parts {
    std::string state_dir;
    pipeline::StoreLoop* store = nullptr;
    ingest::Attacher* attacher = nullptr;
    std::function<void(int64_t run)> run_changed;  // as in ingest::IngestContext
    // As PushLoop::Options::on_trouble.
    std::function<void(int64_t run, const std::string& home, const std::string& error)> on_trouble;
  };

  explicit Peering(Options options) : options_(std::move(options)) {}
  ~Peering() { Stop(); }

  // Reads the key. A file that does not exist, or that cannot be used, switches peering off.
  void Load();
  bool on() const { return key_.has_value(); }
  bool takes() const { return on() && options_.listen.has_value(); }

  absl::Status Start(const Parts& parts);
  void Stop();  // idempotent

  // A run has new rows, a stream of it has ended, or its first rank is known.
  void Notify(int64_t run);
  // When the daemon that sends this stream was last heard of.
  absl::Time Heard(const model::Stream& stream) const;
  // Whether rows wait that can be sent now.
  bool busy() const { return loop_ != nullptr && loop_->busy(); }
  // Whether the homes have all that the store has for them.
  bool sent() const { return loop_ == nullptr || loop_->sent(); }
  // Whether no node still asks which of its rows came too late.
  bool told() const { return receiver_ == nullptr || receiver_->told(); }
  // The thread of this object that has been silent for longest; see base/pulse.h.
  absl::Duration Silence(absl::Time steady_now) const;

  struct State {
    std::string fingerprint;  // of the key; empty: there is none
    std::string error;    // why the key cannot be used, or it does not listen; empty: no trouble
    std::string listens;  // HOST:PORT; empty: it does not
    std::vector<PushLoop::Link> links;      // the runs that are sent
    std::vector<PushReceiver::Node> nodes;  // those that send
    uint64_t late_rows = 0;                 // of this node, at rank 0's
    uint64_t requests = 0;                  // taken
    uint64_t rows = 0;
    uint64_t refused_streams = 0;
    uint64_t refused_connections = 0;
  };
  State state() const;

 private:
  const Options options_;
  std::string off_;  // why the key cannot be used; empty if there is no file
  absl::optional<PeerKey> key_;
  std::unique_ptr<PushReceiver> receiver_;
  std::unique_ptr<PeerService> service_;
  PeerListener::Counters listener_counters_;
  std::unique_ptr<PeerListener> listener_;
  std::unique_ptr<Homes> homes_;
  std::unique_ptr<PushLoop> loop_;
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_PEERING_H_
