// The protocol of one ring and its daemon, without a transport.

#include "client/stream/stream_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/ring/ring.h"
#include "tests/client/ring_file.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StreamProtocolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto spool = Spool::Create({dir_.path(), v1::kMinRingBytes}, v1::Hello());
    ASSERT_TRUE(spool.ok()) << spool.status();
    ring_ = std::make_unique<Ring>(*std::move(spool));
  }

  WriteResult Write() {
    const Metric row[] = {{"loss", 0.5}};
    return ring_->writer.Write(row, RowStep::Taken(step_++));
  }

  // A new connection to a daemon that has the rows up to `durable_seq`. Returns the last row that
  // was sent, and answers nothing else.
  uint64_t SendAll(StreamProtocol* protocol, uint64_t durable_seq) {
    protocol->Begin();
    v1::ServerMessage hello;
    hello.mutable_hello()->set_durable_seq(durable_seq);
    protocol->OnMessage(hello);
    uint64_t last = durable_seq;
    v1::ClientMessage message;
    while (protocol->Next({}, /*urgent=*/true, /*open_step=*/0, &message)) {
      if (message.has_batch()) last = message.batch().last_seq();
    }
    return last;
  }

  testing::TempDir dir_;
  std::unique_ptr<Ring> ring_;
  int64_t step_ = 0;
};

// The daemon stored all of a full ring, and died before it said so. The shape at the ring's front
// must not wait for a row that has no room.
TEST_F(StreamProtocolTest, HelloFreesFullDurableRing) {
  StreamProtocol protocol(ring_.get());
  while (Write() == WriteResult::kTaken) {
  }
  const uint64_t last = SendAll(&protocol, /*durable_seq=*/0);
  EXPECT_GT(last, 100u);
  EXPECT_EQ(ring_->tail(), 0u);
  protocol.End();
  EXPECT_EQ(SendAll(&protocol, last), last);
  EXPECT_EQ(ring_->tail(), ring_->head());
  EXPECT_EQ(Write(), WriteResult::kTaken);
}

TEST_F(StreamProtocolTest, DestroyedRunFinishesLater) {
  StreamProtocol protocol(ring_.get());
  EXPECT_EQ(SendAll(&protocol, 0), 0u);
  ring_->spool->header()->finished.store(v1::kFinishedByDestructor);
  ring_->closing.store(true);
  const StreamProtocol::Time destroyed;
  v1::FinishRequest request;
  EXPECT_FALSE(protocol.NextFinish(destroyed, &request));
  EXPECT_FALSE(protocol.NextFinish(destroyed + std::chrono::milliseconds(1999), &request));
  EXPECT_TRUE(protocol.NextFinish(destroyed + std::chrono::seconds(2), &request));
}

// A row needs its shape in the ring until a daemon has the row: the next connection may be to
// another daemon.
TEST_F(StreamProtocolTest, ShapeStaysUntilRowIsDurable) {
  StreamProtocol protocol(ring_.get());
  ASSERT_EQ(Write(), WriteResult::kTaken);
  EXPECT_EQ(SendAll(&protocol, 0), 1u);
  EXPECT_EQ(ring_->tail(), 0u);
  v1::ServerMessage ack;
  ack.mutable_ack()->set_durable_seq(1);
  protocol.OnMessage(ack);
  EXPECT_EQ(ring_->tail(), ring_->head());
}

// Its store is older than that of the last daemon. The ring still has the rows, because an item
// before them is not acknowledged yet.
TEST_F(StreamProtocolTest, RowsThatTheNextDaemonLacksAreSentAgain) {
  StreamProtocol protocol(ring_.get());
  ASSERT_EQ(ring_->writer.WriteItem(""), WriteResult::kTaken);
  for (int row = 0; row < 3; ++row) ASSERT_EQ(Write(), WriteResult::kTaken);
  EXPECT_EQ(SendAll(&protocol, 0), 3u);
  v1::ServerMessage ack;
  ack.mutable_ack()->set_durable_seq(3);
  protocol.OnMessage(ack);
  protocol.End();
  EXPECT_EQ(SendAll(&protocol, 1), 3u);
}

// At the end of a large ring, there may be more padding than may be unacknowledged.
TEST_F(StreamProtocolTest, PaddingIsNotAwaited) {
  ring_ = std::make_unique<Ring>(*Spool::Create({dir_.path(), v1::kMaxRingBytes}, v1::Hello()));
  StreamProtocol protocol(ring_.get());
  protocol.Begin();
  v1::ServerMessage server;
  server.mutable_hello();
  protocol.OnMessage(server);
  v1::Item large;
  large.mutable_config()->add_fields()->set_key(std::string(17 << 20, 'x'));
  const std::string content = large.SerializeAsString();
  v1::ClientMessage message;
  for (uint64_t item = 1; item <= 12; ++item) {
    ASSERT_EQ(ring_->writer.WriteItem(content), WriteResult::kTaken) << item;
    while (protocol.Next({}, /*urgent=*/true, /*open_step=*/0, &message)) {
      if (message.has_batch()) server.mutable_ack()->set_durable_seq(message.batch().last_seq());
      if (message.has_items()) server.mutable_ack()->set_durable_item(item);
      if (server.has_ack()) protocol.OnMessage(server);
    }
    EXPECT_EQ(ring_->durable_items, item);
    EXPECT_EQ(ring_->tail(), ring_->head());
  }
}

TEST_F(StreamProtocolTest, SendsRowsAndItemsInTheirOrder) {
  StreamProtocol protocol(ring_.get());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Write(), WriteResult::kTaken);
    ASSERT_EQ(ring_->writer.WriteItem(""), WriteResult::kTaken);
    ASSERT_EQ(ring_->writer.WriteItem(""), WriteResult::kTaken);
  }
  protocol.Begin();
  v1::ServerMessage hello;
  hello.mutable_hello()->set_durable_seq(1);
  hello.mutable_hello()->set_durable_item(3);
  protocol.OnMessage(hello);
  std::vector<std::string> sent;
  v1::ClientMessage message;
  while (protocol.Next({}, /*urgent=*/true, /*open_step=*/0, &message)) {
    if (message.has_batch()) sent.push_back("row " + std::to_string(message.batch().last_seq()));
    for (const v1::Item& item : message.items().item()) {
      sent.push_back("item " + std::to_string(item.seq()) + " after row " +
                     std::to_string(item.after_row()));
    }
  }
  EXPECT_THAT(sent, ElementsAre("row 2", "item 4 after row 2", "row 3", "item 5 after row 3",
                                "item 6 after row 3"));
}

TEST_F(StreamProtocolTest, ItemAwaitsThoseOfTheRingBefore) {
  auto before =
      std::make_shared<Ring>(*Spool::Create({dir_.path(), v1::kMinRingBytes}, v1::Hello()));
  ring_->before = before;
  ring_->items_before = 2;
  ASSERT_EQ(ring_->writer.WriteItem(""), WriteResult::kTaken);
  StreamProtocol protocol(ring_.get());
  SendAll(&protocol, /*durable_seq=*/0);
  v1::ClientMessage message;
  EXPECT_FALSE(protocol.Next({}, /*urgent=*/true, /*open_step=*/0, &message));
  before->durable_items = 1;
  EXPECT_FALSE(protocol.Next({}, /*urgent=*/true, /*open_step=*/0, &message));
  before->durable_items = 2;
  EXPECT_TRUE(protocol.Next({}, /*urgent=*/true, /*open_step=*/0, &message));
  EXPECT_EQ(message.items().item_size(), 1);
  EXPECT_EQ(before.use_count(), 1);
}

TEST_F(StreamProtocolTest, ItemStaysInTheRingUntilItIsDurable) {
  StreamProtocol protocol(ring_.get());
  ASSERT_EQ(ring_->writer.WriteItem(""), WriteResult::kTaken);
  ASSERT_EQ(Write(), WriteResult::kTaken);
  EXPECT_EQ(SendAll(&protocol, 0), 1u);
  EXPECT_TRUE(protocol.AwaitsAck());
  v1::ServerMessage ack;
  ack.mutable_ack()->set_durable_seq(1);
  protocol.OnMessage(ack);
  EXPECT_EQ(ring_->tail(), 0u);
  EXPECT_EQ(protocol.Hello().first_item(), 1u);
  ack.mutable_ack()->set_durable_item(1);
  protocol.OnMessage(ack);
  EXPECT_EQ(ring_->tail(), ring_->head());
  EXPECT_EQ(protocol.Hello().first_item(), 2u);
  EXPECT_FALSE(protocol.AwaitsAck());
}

TEST_F(StreamProtocolTest, OnlyAnAcceptedFinishFreesTheRing) {
  StreamProtocol protocol(ring_.get());
  for (int code = 1; code <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++code) {
    protocol.OnFinish({}, static_cast<absl::StatusCode>(code));
    EXPECT_FALSE(ring_->finish_durable.load()) << code;
    EXPECT_THAT(testing::RingPaths(dir_.path()), SizeIs(1)) << code;
  }
  protocol.OnFinish({}, absl::StatusCode::kOk);
  EXPECT_TRUE(ring_->finish_durable.load());
  EXPECT_THAT(testing::RingPaths(dir_.path()), IsEmpty());
}

}  // namespace
}  // namespace ranklog::internal
