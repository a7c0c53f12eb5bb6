#include "service/ingest/server/outgoing_messages.h"

#include <algorithm>
#include <utility>

namespace ranklog::ingest {

void OutgoingMessages::SetReply(v1::HelloReply reply) {
  durable_ = acknowledged_ = reply.durable_seq();
  reply_ = std::move(reply);
  reply_due_ = true;
}

void OutgoingMessages::SetDurable(uint64_t seq) { durable_ = std::max(durable_, seq); }

void OutgoingMessages::AddNotice(const v1::Notice& notice) {
  std::erase_if(notices_, [&](const v1::Notice& other) { return other.key() == notice.key(); });
  notices_.push_back(notice);
}

void OutgoingMessages::AddOlderNotices(const std::vector<v1::Notice>& notices) {
  notices_.insert(notices_.begin(), notices.begin(), notices.end());
}

bool OutgoingMessages::Take(v1::ServerMessage* message) {
  message->Clear();
  if (reply_due_) {
    reply_due_ = false;
    *message->mutable_hello() = std::move(reply_);
  } else if (durable_ > acknowledged_) {
    acknowledged_ = durable_;
    message->mutable_ack()->set_durable_seq(acknowledged_);
  } else if (notices_.empty()) {
    return false;
  }
  for (v1::Notice& notice : notices_) *message->add_notices() = std::move(notice);
  notices_.clear();
  return true;
}

}  // namespace ranklog::ingest
