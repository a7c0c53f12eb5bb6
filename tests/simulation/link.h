// A connection between a ring's protocol and the daemon's session. It delays everything and breaks
// at any message. Messages in flight may still reach the daemon after the break.

#ifndef TESTS_SIMULATION_LINK_H_
#define TESTS_SIMULATION_LINK_H_

#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/server/attach_session.h"
#include "tests/simulation/world.h"

namespace ranklog::simulation {

// Shared by the rank, the daemon, and the events in flight.
class Link final : public ingest::AttachSession::Call, public std::enable_shared_from_this<Link> {
 public:
  // The rank's callbacks, until it lets go or receives the end.
  struct Client {
    std::function<void(const v1::ServerMessage&)> on_message;
    std::function<void(const absl::Status&)> on_end;
  };

  Link(World* world, Client client) : world_(*world), client_(std::move(client)) {}

  // The daemon's side. `on_sent` is called for each message that leaves the daemon's process.
  void Accept(std::shared_ptr<ingest::AttachSession> session, std::function<bool()> daemon_works,
              std::function<void(const v1::ServerMessage&)> on_sent);
  void DaemonDied();

  // The rank's side.
  bool writable() const { return open_ && to_daemon_.size() < 4; }
  void Send(const v1::ClientMessage& message);
  // The rank receives nothing more. Messages in flight may still reach the daemon.
  void LetGo();
  // Breaks the connection. The rank detects it after a while.
  void Break();

  void Read() override;
  void Write(const v1::ServerMessage& message) override;
  void Finish(const absl::Status& status) override;

 private:
  struct Message {
    absl::Time arrives;
    v1::ClientMessage message;
  };
  void Cut();
  void Pump();
  void Deliver();
  void ReportEnd(const absl::Status& status);
  bool daemon_lives() const { return session_ != nullptr; }

  World& world_;
  Client client_;
  std::shared_ptr<ingest::AttachSession> session_;
  std::function<bool()> daemon_works_;
  std::function<void(const v1::ServerMessage&)> on_sent_;
  std::deque<Message> to_daemon_;
  absl::Time last_to_rank_ = absl::InfinitePast();
  absl::Time last_to_daemon_ = absl::InfinitePast();
  bool open_ = true;    // for the rank
  bool ended_ = false;  // nothing follows the messages in to_daemon_
  bool reading_ = false;
  bool pumping_ = false;
  bool end_reported_ = false;  // the session knows that no more messages follow
  bool finished_ = false;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_LINK_H_
