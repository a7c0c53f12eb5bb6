#include "service/ingest/server/outgoing_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ranklog::ingest {
namespace {

v1::Notice NoticeOf(const std::string& key, const std::string& text) {
  v1::Notice notice;
  notice.set_key(key);
  notice.set_text(text);
  return notice;
}

v1::HelloReply ReplyAt(uint64_t durable) {
  v1::HelloReply reply;
  reply.set_durable_seq(durable);
  return reply;
}

TEST(OutgoingMessagesTest, NothingWaitsAtFirst) {
  OutgoingMessages outgoing;
  v1::ServerMessage message;
  EXPECT_FALSE(outgoing.Take(&message));
}

TEST(OutgoingMessagesTest, TheReplyAcknowledgesItsPosition) {
  OutgoingMessages outgoing;
  outgoing.SetReply(ReplyAt(7));
  v1::ServerMessage message;
  ASSERT_TRUE(outgoing.Take(&message));
  EXPECT_EQ(message.hello().durable_seq(), 7u);
  EXPECT_FALSE(outgoing.Take(&message));
  outgoing.SetDurable(7, 0);
  EXPECT_FALSE(outgoing.Take(&message)) << "position 7 is acknowledged already";
}

TEST(OutgoingMessagesTest, OneAcknowledgementCoversAllPositions) {
  OutgoingMessages outgoing;
  outgoing.SetDurable(3, 0);
  outgoing.SetDurable(9, 0);
  outgoing.SetDurable(5, 0);
  v1::ServerMessage message;
  ASSERT_TRUE(outgoing.Take(&message));
  EXPECT_EQ(message.ack().durable_seq(), 9u);
  EXPECT_FALSE(outgoing.Take(&message));
}

TEST(OutgoingMessagesTest, RowsAndItemsShareAnAcknowledgement) {
  OutgoingMessages outgoing;
  outgoing.SetDurable(3, 0);
  outgoing.SetDurable(0, 2);
  v1::ServerMessage message;
  ASSERT_TRUE(outgoing.Take(&message));
  EXPECT_EQ(message.ack().durable_seq(), 3u);
  EXPECT_EQ(message.ack().durable_item(), 2u);
  outgoing.SetDurable(0, 3);
  ASSERT_TRUE(outgoing.Take(&message));
  EXPECT_EQ(message.ack().durable_seq(), 3u) << "neither position goes back";
  EXPECT_EQ(message.ack().durable_item(), 3u);
}

TEST(OutgoingMessagesTest, NewNoticeReplacesSameKey) {
  OutgoingMessages outgoing;
  outgoing.AddNotice(NoticeOf("store", "full"));
  outgoing.AddNotice(NoticeOf("start", "ID-2"));
  outgoing.AddNotice(NoticeOf("store", "writable again"));
  outgoing.AddOlderNotices({NoticeOf("url", "https://a")});
  v1::ServerMessage message;
  ASSERT_TRUE(outgoing.Take(&message));
  ASSERT_EQ(message.notices_size(), 3);
  EXPECT_EQ(message.notices(0).key(), "url");
  EXPECT_EQ(message.notices(1).key(), "start");
  EXPECT_EQ(message.notices(2).text(), "writable again");
  EXPECT_FALSE(outgoing.Take(&message));
}

}  // namespace
}  // namespace ranklog::ingest
