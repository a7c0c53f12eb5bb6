#include "tests/simulation/link.h"

#include <algorithm>
#include <utility>

namespace ranklog::simulation {

void Link::Accept(std::shared_ptr<ingest::AttachSession> session,
                  std::function<bool()> daemon_works,
                  std::function<void(const v1::ServerMessage&)> on_sent) {
  session_ = std::move(session);
  daemon_works_ = std::move(daemon_works);
  on_sent_ = std::move(on_sent);
  Pump();
}

void Link::DaemonDied() {
  session_.reset();
  to_daemon_.clear();
  if (!open_) return;
  open_ = false;
  world_.After(world_.Delay(0, 50), [self = shared_from_this()] {
    self->ReportEnd(absl::UnavailableError("the daemon is gone"));
  });
}

void Link::Send(const v1::ClientMessage& message) {
  if (!open_) return;
  if (world_.faults && world_.Chance(0.01)) {
    Break();
    if (world_.Chance(0.5)) return;
  }
  last_to_daemon_ = std::max(last_to_daemon_, world_.now() + world_.Delay(0, 20));
  to_daemon_.push_back({last_to_daemon_, message});
  Pump();
}

void Link::LetGo() {
  client_ = {};
  Cut();
}

void Link::Break() {
  if (!open_) return;
  Cut();
  world_.After(world_.Delay(0, 200), [self = shared_from_this()] {
    self->ReportEnd(absl::UnavailableError("the connection broke"));
  });
}

// Of the messages in flight, a first part still arrives, some of it late.
void Link::Cut() {
  open_ = false;
  to_daemon_.resize(world_.Between(0, to_daemon_.size()));
  if (world_.Chance(0.3)) {
    const absl::Duration late = world_.Delay(0, 2000);
    for (Message& message : to_daemon_) message.arrives += late;
  }
  ended_ = true;
  Pump();
}

void Link::ReportEnd(const absl::Status& status) {
  const auto on_end = std::exchange(client_, {}).on_end;
  if (on_end) on_end(status);
}

void Link::Read() {
  reading_ = true;
  Pump();
}

void Link::Pump() {
  if (!reading_ || pumping_ || !daemon_lives() || (to_daemon_.empty() && !ended_)) return;
  pumping_ = true;
  const absl::Time at = to_daemon_.empty() ? world_.now() : to_daemon_.front().arrives;
  world_.After(std::max(at - world_.now(), absl::ZeroDuration()), [self = shared_from_this()] {
    self->pumping_ = false;
    self->Deliver();
  });
}

void Link::Deliver() {
  if (!reading_ || !daemon_lives() || !daemon_works_()) return;
  const std::shared_ptr<ingest::AttachSession> session = session_;
  if (!to_daemon_.empty() && !finished_) {
    reading_ = false;
    const v1::ClientMessage message = std::move(to_daemon_.front().message);
    to_daemon_.pop_front();
    session->OnMessage(message);
  } else if (!end_reported_ && (ended_ || finished_)) {
    reading_ = false;
    end_reported_ = true;
    session->OnNoMoreMessages();
  }
}

void Link::Write(const v1::ServerMessage& message) {
  if (!daemon_lives() || !daemon_works_()) return;
  on_sent_(message);
  last_to_rank_ = std::max(last_to_rank_, world_.now() + world_.Delay(0, 20));
  if (world_.faults && world_.Chance(0.01)) Break();  // before it arrives: the answer is lost
  world_.After(last_to_rank_ - world_.now(), [self = shared_from_this(), message] {
    const auto on_message = self->client_.on_message;
    if (self->open_ && on_message) on_message(message);
    if (self->daemon_lives() && self->daemon_works_()) {
      const std::shared_ptr<ingest::AttachSession> session = self->session_;
      session->OnWritten(self->open_ || self->world_.Chance(0.5));
    }
  });
}

void Link::Finish(const absl::Status& status) {
  if (!daemon_lives() || !daemon_works_()) return;
  finished_ = true;
  last_to_rank_ = std::max(last_to_rank_, world_.now() + world_.Delay(0, 20));
  world_.After(last_to_rank_ - world_.now(), [self = shared_from_this(), status] {
    if (self->open_) {
      self->open_ = false;
      self->ReportEnd(status.ok() ? absl::UnavailableError("the daemon ended the stream") : status);
    }
    if (!self->daemon_lives() || !self->daemon_works_()) return;
    const std::shared_ptr<ingest::AttachSession> session = std::move(self->session_);
    if (self->reading_) session->OnNoMoreMessages();
    session->OnDone();
  });
}

}  // namespace ranklog::simulation
