// The progress of uploads, as the commands show it.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/integration/cli_fixture.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"
#include "tests/support/terminal.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

// Four artifacts of the finished run: one was delivered, one refused, one is being sent, one waits.
class CliArtifactsTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    ASSERT_OK_AND_ASSIGN(const auto reader, storage::StoreReader::Open(state_dir()));
    ASSERT_OK_AND_ASSIGN(const auto streams, reader->Streams(run_));
    ASSERT_OK(store_->Begin());
    for (const char* name : {"sent", "bad", "large", "last"}) {
      model::Item item;
      item.kind = model::Item::Kind::kArtifact;
      item.object = {
          {"id", name},
          {"name", name},
          {"type", "model"},
          {"entries", model::Json::array({{{"path", "a"}, {"file", "f-1"}, {"bytes", 1 << 20}},
                                          {{"path", "b"}, {"file", "f-2"}, {"bytes", 3 << 20}}})}};
      items_.push_back(item);
      ASSERT_OK(AppendItem(*store_, streams[0].id, item, kStart));
    }
    ASSERT_OK(store_->Commit());
    ASSERT_OK_AND_ASSIGN(const auto uploads, reader->Uploads(run_, 0));
    ASSERT_EQ(uploads.size(), 4u);
    model::Delivery delivery;
    delivery.run = run_;
    delivery.kind = "wandb";
    delivery.delivered_rows = 5;
    delivery.cursor = {
        {"content", uploads[1].id}, {"content_files", 1}, {"content_bytes", 3 << 19}};
    model::DeadLetter letter;
    letter.run = run_;
    letter.kind = "wandb";
    letter.answer = "artifact bad: HTTP 400";
    letter.content = items_[1].object.dump();
    ASSERT_OK(store_->Begin());
    ASSERT_OK(store_->PutDelivery(delivery));
    ASSERT_OK(store_->AddDeadLetter(letter));
    ASSERT_OK(store_->Commit());
  }

  std::vector<model::Item> items_;
};

TEST_F(CliArtifactsTest, StateOfEach) {
  std::vector<std::string> states;
  const Json listed = RanklogJson({"artifacts", "tiny"});
  for (const Json& artifact : listed) states.push_back(artifact["state"].get<std::string>());
  EXPECT_THAT(states, ::testing::ElementsAre("delivered", "refused", "uploading", "waiting"));
  EXPECT_EQ(listed[2]["sent_bytes"], 3 << 19);
  EXPECT_EQ(listed[2]["bytes"], 4 << 20);
  EXPECT_THAT(Ranklog({"artifacts", "tiny"}).output,
              HasSubstr("uploading 37 % (1.5 MiB of 4.0 MiB)"));
}

TEST_F(CliArtifactsTest, StatusCountsWhatWaits) {
  EXPECT_THAT(Ranklog({"status"}).output, HasSubstr("\nuploads 3 files, 6.5 MiB, to wandb\n"));
  const Json destination = RanklogJson({"status"})["destinations"][1];
  EXPECT_EQ(destination["kind"], "wandb");
  EXPECT_EQ(destination["pending_files"], 3);
  EXPECT_EQ(destination["pending_file_bytes"], 13 << 19);
}

// The tracker does not answer.
TEST_F(CliArtifactsTest, SyncReportsWhatIsLeft) {
  store_.reset();
  options_.environment["WANDB_API_KEY"] = std::string(40, 'a');
  const Finished sync = Ranklog({"sync", "--timeout", "2s"});
  EXPECT_EQ(sync.code, 1) << sync.output;
  EXPECT_THAT(sync.output, HasSubstr("5 of 5 rows delivered, 3 files, 6.5 MiB to upload"));
  const Finished drawn =
      RunOnTerminal({RANKLOG_CLI, "sync", "--timeout", "2s", "--state-dir", state_dir()}, options_);
  EXPECT_THAT(drawn.output, HasSubstr("  0%  5/6 rows, 0/3 files, 0 B of 6.5 MiB"));
}

}  // namespace
}  // namespace ranklog::testing
