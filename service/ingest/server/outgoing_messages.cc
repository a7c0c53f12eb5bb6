#include "service/ingest/server/outgoing_messages.h"

#include <algorithm>
#include <utility>

namespace ranklog::ingest {

void OutgoingMessages::SetReply(v1::HelloReply reply) {
  SetDurable(reply.durable_seq(), reply.durable_item());
  ack_due_ = false;
  reply_ = std::move(reply);
  reply_due_ = true;
}

void OutgoingMessages::SetDurable(uint64_t seq, uint64_t item) {
  ack_due_ |= seq > durable_.durable_seq() || item > durable_.durable_item();
  durable_.set_durable_seq(std::max<uint64_t>(durable_.durable_seq(), seq));
  durable_.set_durable_item(std::max<uint64_t>(durable_.durable_item(), item));
}

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
  } else if (std::exchange(ack_due_, false)) {
    *message->mutable_ack() = durable_;
  } else if (notices_.empty()) {
    return false;
  }
  for (v1::Notice& notice : notices_) *message->add_notices() = std::move(notice);
  notices_.clear();
  return true;
}

}  // namespace ranklog::ingest
