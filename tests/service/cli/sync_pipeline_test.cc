#include "service/cli/node/sync_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "service/deliver/wandb/wandb_destination.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/store_fixture.h"
#include "tests/support/status_matchers.h"

namespace ranklog::cli {
namespace {

using ::testing::HasSubstr;

class SyncPipelineTest : public testing::StoreTest {
 protected:
  // Makes an ended run of a job of its own.
  model::Run EndedRun(const std::string& id, const std::string& base_url) {
    model::Session session = testing::SessionOf(0, 7, id);
    session.settings.destination_settings["wandb"]["base_url"] = base_url;
    int64_t run = 0;
    Do([&] {
      const auto stream = store_->Attach(session, testing::AssignmentOf(id), 1000);
      ASSERT_OK(stream);
      run = stream->run;
      EXPECT_OK(store_->AddDelivery(run, "wandb"));
      EXPECT_OK(store_->EndStream(stream->id, model::StreamState::kFinished, 0, "", 2000));
      EXPECT_OK(store_->CloseRun(run, model::RunState::kFinished, 0, "", 3000));
    });
    return reader_->GetRun(run).value();
  }

  // From now on, the tracker has the run.
  void Create(const model::Run& run) {
    model::Delivery created;
    created.run = run.id;
    created.kind = "wandb";
    created.cursor = {{"storage_id", "s1"}};
    Do([&] { EXPECT_OK(store_->PutDelivery(created)); });
  }

  absl::Status Correct(const std::vector<model::Run>& runs, const std::string& base_url) {
    store_.reset();
    const auto pipeline = SyncPipeline::Open(dir_.path());
    EXPECT_OK(pipeline);
    return (*pipeline)->SetAddress(runs, deliver::wandb::Wandb(), base_url);
  }
};

TEST_F(SyncPipelineTest, OtherSpellingIsSameAddress) {
  const model::Run slash = EndedRun("slash", "https://a/");
  const model::Run usual = EndedRun("usual", "");
  Create(slash);
  Create(usual);
  EXPECT_OK(Correct({slash}, "https://a"));
  EXPECT_OK(Correct({slash}, "https://a//"));
  EXPECT_OK(Correct({usual}, "https://api.wandb.ai/"));
}

TEST_F(SyncPipelineTest, RefusalNamesEffectiveAddress) {
  const model::Run usual = EndedRun("usual", "");
  Create(usual);
  EXPECT_THAT(Correct({usual}, "https://b").message(),
              HasSubstr("the address of run usual stays https://api.wandb.ai: wandb has a part"));
}

TEST_F(SyncPipelineTest, OneRefusedRunChangesNone) {
  const model::Run open = EndedRun("open", "https://a");
  const model::Run created = EndedRun("created", "https://a");
  Create(created);
  EXPECT_THAT(Correct({open, created}, "https://b").message(),
              HasSubstr("the address of run created stays https://a: "));
  EXPECT_EQ(reader_->GetRun(open.id)->settings.Of("wandb", "base_url"), "https://a");
  EXPECT_OK(Correct({open}, "https://b"));
  EXPECT_EQ(reader_->GetRun(open.id)->settings.Of("wandb", "base_url"), "https://b");
}

}  // namespace
}  // namespace ranklog::cli
