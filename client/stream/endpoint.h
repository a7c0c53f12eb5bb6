// A daemon's address, and all rings of this process that send to it. Connects, starts the daemon if
// none is running, and reconnects forever.

#ifndef CLIENT_STREAM_ENDPOINT_H_
#define CLIENT_STREAM_ENDPOINT_H_

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/settings/socket_address.h"
#include "client/stream/daemon_starter.h"
#include "client/stream/socket/connection.h"
#include "client/stream/stream.h"

namespace ranklog::internal {

// Use it on the sender's thread, or on a thread that has paused the sender.
class Endpoint {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The longest silence of a daemon that works. A full or slow disk may delay acknowledgements, and
  // a new connection sends the rows again, so this is long.
  static constexpr std::chrono::seconds kSilence{60};

  // If an answer is due, and none of any kind comes on the connection for `silence`, the connection
  // is closed and made again.
  explicit Endpoint(std::string address, std::chrono::milliseconds silence = kSilence);
  ~Endpoint();  // closes the connection

  const std::string& address() const { return address_; }
  void Add(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring);

  // Does everything that can be done now. Returns at `deadline` at the latest, and earlier if
  // `hurry()` returns true. Waits for the daemon only while an answer is expected soon, or, if
  // `urgent`, while any answer is expected.
  void Tick(Time deadline, bool urgent, const std::function<bool()>& hurry);

  // Time of the next useful Tick(), apart from new rows and new rings.
  Time next_attempt() const { return connection_ != nullptr ? Time::max() : next_attempt_; }
  // A ring is half full, so it should not wait for the next flush.
  bool pressed() const;
  // An answer of the daemon is pending, and an urgent Tick() waits for it.
  bool awaits() const {
    return connection_ != nullptr && !lacks_memory_ && (ExpectsSoon() || HasUndurable());
  }
  // The reply to a ring's Hello is pending.
  bool attaches() const;
  // No ring is left.
  bool empty() const { return streams_.empty(); }
  std::chrono::milliseconds flush_interval() const;

  void AddHeaders(std::vector<v1::SpoolHeader*>* headers) const;

  // Closes the gRPC connection; the next Tick() connects again. False: memory is short, so gRPC was
  // not called, because it would end the process.
  bool Disconnect();

 private:
  void TryConnect(Time now);
  bool HasRoom();
  void Attach(RingStream* stream);
  // Attaches the streams that no longer have to wait.
  void AttachWaiting();
  // True if an earlier Init() of this rank in this process has ended, and the daemon does not have
  // all of its rows yet. Those rows must come first.
  bool MustWait(const RingStream& stream) const;
  void EndConnection();
  void BackOff(Time now);
  void SetConnectionError(const std::string& error);
  bool HoldsForNewRings(Time now);
  void Advance(Time now, bool urgent);
  void CheckHealth(Time now);
  void SetAside(RingStream* stream, Time now);
  void DropDone();
  bool ExpectsSoon() const;
  bool HasUndurable() const;

  const std::string address_;
  const std::chrono::milliseconds silence_;
  std::vector<SocketLocation> places_;
  size_t answered_ = 0;    // index of the place that answered
  std::string state_dir_;  // of the daemon that answered last
  std::list<std::unique_ptr<RingStream>> streams_;
  std::map<RingStream*, Time> refused_;  // refused streams, with the time of the next try
  std::unique_ptr<Connection> connection_;
  DaemonStarter starter_;
  Time next_attempt_;
  Time last_poll_;
  Time last_tick_;
  Time heard_;                              // the daemon answered, or nobody could hear it before
  std::chrono::milliseconds first_answer_;  // how long to wait for the first answer
  Time hold_since_;  // rows wait for new rings since then; zero: they do not wait
  std::chrono::milliseconds back_off_;
  std::minstd_rand random_;
  bool lacks_memory_ = false;  // memory was short at the last Tick()
  bool settled_ = false;       // all streams are attached, and their runs know it
};

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_ENDPOINT_H_
