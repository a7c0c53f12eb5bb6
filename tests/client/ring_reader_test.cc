// A ring that bugs of the trainer have overwritten. The reader abandons it, and reads nothing
// outside of it.

#include "client/ring/ring_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "client/ring/ring.h"
#include "client/stream/stream_protocol.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

using ::testing::HasSubstr;

class RingReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto spool = Spool::Create({dir_.path(), v1::kMinRingBytes}, v1::Hello());
    ASSERT_TRUE(spool.ok()) << spool.status();
    ring_ = std::make_unique<Ring>(*std::move(spool));
    for (int step = 0; step < 20; ++step) {
      const std::string text(static_cast<size_t>(step), 't');
      const Metric rows[] = {{"loss", step}, {"rate", 0.5}, {"note", text}};
      ASSERT_EQ(
          ring_->writer.Write(std::span(rows).first(step % 4 == 0 ? 1 : 3), RowStep::Taken(step)),
          WriteResult::kTaken);
      if (step % 5 != 0) continue;
      ASSERT_EQ(ring_->writer.WriteItem("an item"), WriteResult::kTaken);
    }
  }

  // Returns the position of a record, counted from the first.
  size_t PositionOf(int record) {
    size_t position = 0;
    for (; record > 0; --record) {
      v1::RecordHeader header;
      std::memcpy(&header, ring_->spool->data() + position, sizeof header);
      position += header.bytes;
    }
    return position;
  }

  // Reads all that can be sent, like a sender whose daemon answers at once. Returns the number of
  // messages.
  int SendAll(StreamProtocol* protocol) {
    protocol->Begin();
    v1::ServerMessage answer;
    answer.mutable_hello();
    protocol->OnMessage(answer);
    int messages = 0;
    v1::ClientMessage message;
    while (protocol->Next({}, /*urgent=*/true, /*open_step=*/0, &message)) {
      ++messages;
      if (message.has_batch()) {
        answer.mutable_ack()->set_durable_seq(message.batch().last_seq());
      } else if (message.has_items()) {
        answer.mutable_ack()->set_durable_item(message.items().item().rbegin()->seq());
      }
      protocol->OnMessage(answer);
    }
    return messages;
  }

  testing::TempDir dir_;
  std::unique_ptr<Ring> ring_;
};

TEST_F(RingReaderTest, IntactRingIsSentCompletely) {
  StreamProtocol protocol(ring_.get());
  EXPECT_GT(SendAll(&protocol), 2);
  EXPECT_EQ(protocol.Damage(), nullptr);
  EXPECT_EQ(ring_->tail(), ring_->head());
}

// Padding of zero bytes makes no progress.
TEST_F(RingReaderTest, ZerosEndTheRing) {
  const size_t position = PositionOf(7);
  std::memset(ring_->spool->data() + position, 0, 64);
  StreamProtocol protocol(ring_.get());
  SendAll(&protocol);
  ASSERT_NE(protocol.Damage(), nullptr);
  EXPECT_THAT(*protocol.Damage(), HasSubstr("overwritten at its byte " + std::to_string(position)));
  EXPECT_EQ(ring_->tail(), position);
}

TEST_F(RingReaderTest, DamageIsReportedAfterEarlierRows) {
  std::memset(ring_->spool->data() + PositionOf(7), 0xff, 8);
  StreamProtocol protocol(ring_.get());
  protocol.Begin();
  v1::ServerMessage answer;
  answer.mutable_hello();
  protocol.OnMessage(answer);
  v1::ClientMessage message;
  v1::Ack last;
  while (protocol.Next({}, true, 0, &message)) {
    if (message.has_batch()) last.set_durable_seq(message.batch().last_seq());
    if (message.has_items()) last.set_durable_item(message.items().item().rbegin()->seq());
  }
  EXPECT_EQ(protocol.Damage(), nullptr);
  *answer.mutable_ack() = last;
  protocol.OnMessage(answer);
  EXPECT_NE(protocol.Damage(), nullptr);
}

TEST_F(RingReaderTest, ReadingOverwrittenRingTerminates) {
  std::minstd_rand random(7);
  const size_t used = ring_->head();
  std::vector<size_t> records;
  for (int i = 0; i < 20; ++i) records.push_back(PositionOf(i));
  const std::string sound(reinterpret_cast<const char*>(ring_->spool->data()), used);
  for (int trial = 0; trial < 5000; ++trial) {
    std::memcpy(ring_->spool->data(), sound.data(), used);
    ring_->spool->header()->tail.store(0);
    for (size_t bytes = 1 + random() % 4; bytes > 0; --bytes) {
      // Half of them hit a record's fixed part, where each byte has an effect.
      const bool anywhere = random() % 2 == 0;
      const size_t at =
          anywhere ? random() % used : records[random() % records.size()] + random() % 48;
      ring_->spool->data()[at % used] = static_cast<std::byte>(random());
    }
    StreamProtocol protocol(ring_.get());
    ASSERT_LT(SendAll(&protocol), 1000) << "trial " << trial;
  }
}

}  // namespace
}  // namespace ranklog::internal
