// The messages that a stream must still send to its rank.

#ifndef SERVICE_INGEST_SERVER_OUTGOING_MESSAGES_H_
#define SERVICE_INGEST_SERVER_OUTGOING_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::ingest {

// Collects the reply to Hello, the durable position and notices until a message can be written, and
// puts as much as possible into one message. Not thread-safe.
class OutgoingMessages {
 public:
  // Before the reply, only notices go out. Its durable_seq is not acknowledged again.
  void SetReply(v1::HelloReply reply);
  // Neither position goes back.
  void SetDurable(uint64_t seq, uint64_t item);
  // Replaces a waiting notice with the same key.
  void AddNotice(const v1::Notice& notice);
  // Adds notices that are older than the waiting ones.
  void AddOlderNotices(const std::vector<v1::Notice>& notices);

  // Moves what waits into `message`. False: nothing waits.
  bool Take(v1::ServerMessage* message);

 private:
  bool reply_due_ = false;
  v1::HelloReply reply_;
  std::vector<v1::Notice> notices_;  // waiting to be written
  v1::Ack durable_;
  bool ack_due_ = false;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_OUTGOING_MESSAGES_H_
