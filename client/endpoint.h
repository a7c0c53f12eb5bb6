// A daemon's address with all rings of this process that go there: connects, starts the daemon
// where there is none, and reconnects for ever.

#ifndef CLIENT_ENDPOINT_H_
#define CLIENT_ENDPOINT_H_

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/connection.h"
#include "client/daemon_start.h"
#include "client/socket_address.h"
#include "client/stream.h"

namespace ranklog::internal {

// For the sender's thread, or who holds it off.
class Endpoint {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Endpoint(std::string address);
  ~Endpoint();  // closes the connection

  const std::string& address() const { return address_; }
  void Add(std::shared_ptr<RunState> run, std::shared_ptr<Ring> ring);

  // Does all that can be done now, for at most until `deadline`; ends early when `hurry()` says so.
  // Waits for the daemon only as long as something is expected of it soon, or, if `urgent`,
  // anything.
  void Tick(Time deadline, bool urgent, const std::function<bool()>& hurry);

  // When Tick() is next of use, apart from new rows and new rings.
  Time next_attempt() const { return connection_ != nullptr ? Time::max() : next_attempt_; }
  // Some ring is half full: it should not wait for its turn.
  bool pressed() const;
  // A daemon has something to answer: a Tick() that is urgent waits for it.
  bool awaits() const {
    return connection_ != nullptr && !starved_ && (ExpectsSoon() || HasUndurable());
  }
  // No ring is left.
  bool empty() const { return streams_.empty(); }
  std::chrono::milliseconds flush_interval() const;

  void AddHeaders(std::vector<v1::SpoolHeader*>* headers) const;

  // Leaves gRPC altogether; the next Tick() connects anew. False: memory is short, so gRPC, which
  // would end the process, was not called.
  bool Disconnect();

 private:
  void TryConnect(Time now);
  bool HasRoom();
  void TryStartDaemon(Time now);
  void Attach(RingStream* stream);
  // Attaches the streams that wait and need not any more.
  void AttachWaiting();
  // An earlier Init() of this rank in this process has ended, and the daemon does not know all of
  // it yet: what it logged comes first.
  bool MustWait(const RingStream& stream) const;
  void EndConnection();
  void BackOff(Time now);
  void SetConnectionError(const std::string& error);
  // Why no daemon could be started: stays until one answers.
  void SetStartError(std::string error);
  bool HoldsForNewRings(Time now);
  void Advance(Time now, bool urgent);
  void CheckHealth(Time now);
  void SetAside(RingStream* stream, Time now);
  void DropDone();
  bool ExpectsSoon() const;
  bool HasUndurable() const;

  const std::string address_;
  std::vector<SocketPlace> places_;
  size_t answered_ = 0;    // which of the places
  std::string state_dir_;  // of the daemon that answered last
  std::list<std::unique_ptr<RingStream>> streams_;
  std::map<RingStream*, Time> refused_;  // of streams_, with the time to try again
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<StartLock> start_lock_;
  Time start_lock_until_;
  Time no_start_before_;
  std::string start_error_;
  Time next_attempt_;
  Time last_poll_;
  Time hold_since_;  // rows are held for new rings since then; zero: they are not
  std::chrono::milliseconds back_off_;
  std::minstd_rand random_;
  bool starved_ = false;  // memory was short at the last Tick()
  bool calm_ = false;     // all streams are attached, and their runs know it
};

}  // namespace ranklog::internal

#endif  // CLIENT_ENDPOINT_H_
