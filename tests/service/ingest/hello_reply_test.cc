#include "service/ingest/server/hello_reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::ingest {
namespace {

using ::testing::ElementsAre;

model::Stream AttachedStream() {
  model::Stream stream;
  stream.durable_seq = 7;
  stream.run_id = "run1";
  return stream;
}

TEST(HelloReplyTest, ReplyHasPositionAndDestinations) {
  const v1::HelloReply reply =
      ReplyTo(AttachedStream(), {"wandb", "local"}, "/state", nullptr, /*send_descriptor=*/true);
  EXPECT_EQ(reply.durable_seq(), 7u);
  EXPECT_EQ(reply.run_id(), "run1");
  EXPECT_EQ(reply.state_dir(), "/state");
  EXPECT_TRUE(reply.send_descriptor());
  EXPECT_THAT(reply.destinations(), ElementsAre("wandb", "local"));
}

TEST(HelloReplyTest, RefusedStreamIsOnlyLocal) {
  model::Stream stream = AttachedStream();
  stream.refused = true;
  EXPECT_THAT(ReplyTo(stream, {"wandb"}, "", nullptr, /*send_descriptor=*/false).destinations(),
              ElementsAre("local"));
}

TEST(HelloReplyTest, NoticeWarnsOfMixedStart) {
  model::Stream stream = AttachedStream();
  stream.notice = "the rank is of another start";
  EXPECT_EQ(StartNotice(stream).severity(), v1::Notice::INFO);
  stream.warns = true;
  EXPECT_EQ(StartNotice(stream).severity(), v1::Notice::WARNING);
  EXPECT_EQ(StartNotice(stream).text(), stream.notice);
}

}  // namespace
}  // namespace ranklog::ingest
