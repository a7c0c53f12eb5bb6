#include "service/deliver/wandb/api/file_stream.h"

#include <gtest/gtest.h>

namespace ranklog::deliver::wandb {
namespace {

TEST(StreamBodyTest, IsTheHeartbeatWithoutContent) { EXPECT_EQ(StreamBody({}), "{}"); }

TEST(StreamBodyTest, OmitsEmptyParts) {
  StreamPost post;
  post.history_offset = 12;
  post.history = R"("{\"a\":1}","{\"a\":2}")";
  EXPECT_EQ(
      StreamBody(post),
      R"({"files":{"wandb-history.jsonl":{"offset":12,"content":["{\"a\":1}","{\"a\":2}"]}}})");
  post.history = "";
  post.summary = R"({"a":2})";
  EXPECT_EQ(StreamBody(post),
            R"({"files":{"wandb-summary.json":{"offset":0,"content":["{\"a\":2}"]}}})");
  post.summary.reset();
  post.exit_code = 3;
  EXPECT_EQ(StreamBody(post), R"({"complete":true,"exitcode":3})");
}

TEST(StreamBodyTest, JoinsAllParts) {
  StreamPost post;
  post.history = R"("{}")";
  post.events_offset = 3;
  post.events = {R"({"a":1})", "{}"};
  post.summary = "{}";
  post.uploaded = {"a.txt", "b/c"};
  post.preempting = true;
  post.exit_code = 0;
  EXPECT_EQ(StreamBody(post),
            R"({"files":{"wandb-history.jsonl":{"offset":0,"content":["{}"]},)"
            R"("wandb-events.jsonl":{"offset":3,"content":["{\"a\":1}","{}"]},)"
            R"("wandb-summary.json":{"offset":0,"content":["{}"]}},)"
            R"("uploaded":["a.txt","b/c"],"preempting":true,"complete":true,"exitcode":0})");
}

}  // namespace
}  // namespace ranklog::deliver::wandb
