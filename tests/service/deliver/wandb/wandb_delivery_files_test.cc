// The files of a run at the server: metadata at the start, config and summary at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "service/base/clock.h"
#include "tests/service/deliver/wandb/http_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::SizeIs;

class WandbDeliveryFilesTest : public HttpDeliveryTest {
 protected:
  WandbDeliveryFilesTest() { Restart(); }
  void Restart() { HttpDeliveryTest::Restart(WandbDelivery::Options()); }
  void SetFacts() {
    stored_.Apply(model::Item::Kind::kMetadata,
                  {{"os", "Linux"},
                   {"args", {"--lr", "1"}},
                   {"git", {{"commit", "c0ffee"}, {"remote", "https://example.com/x.git"}}},
                   {"libraries", {"libtorch==2.1", "libc==2.36"}}});
    stored_.Write([&](storage::Store& store) {
      EXPECT_OK(store.SetHardware(stored_.run().id, {{"cpu_count", 4}}));
    });
  }
  // Returns the time that the delivery of the end waits.
  absl::Duration End() {
    const absl::Time before = now_;
    stored_.Close(model::RunState::kFinished, 0);
    Deliver(absl::Minutes(5));
    return now_ - before;
  }
};

TEST_F(WandbDeliveryFilesTest, FactsComeAtTheStart) {
  SetFacts();
  stored_.Append(1);
  Deliver();
  const FakeWandb::Run run = server_.run("r");
  const auto metadata = nlohmann::json::parse(run.files.at("wandb-metadata.json"));
  EXPECT_EQ(metadata["os"], "Linux");
  EXPECT_EQ(metadata["cpu_count"], 4);
  EXPECT_FALSE(metadata.contains("libraries"));
  EXPECT_EQ(run.files.at("requirements.txt"), "libtorch==2.1\nlibc==2.36\n");
  EXPECT_THAT(run.uploaded, ElementsAre("requirements.txt", "wandb-metadata.json"));
  EXPECT_EQ(run.variables["commit"], "c0ffee");
  EXPECT_EQ(run.variables["repo"], "https://example.com/x.git");
  const auto writers = nlohmann::json::parse(run.config)["_wandb"]["value"]["e"];
  ASSERT_THAT(writers, SizeIs(1));
  EXPECT_EQ(writers.begin().value()["args"], nlohmann::json({"--lr", "1"}));
}

TEST_F(WandbDeliveryFilesTest, ConfigAndSummaryComeAtTheEnd) {
  stored_.Apply(model::Item::Kind::kConfig, {{"lr", 0.1}});
  stored_.Append(2);
  Deliver();
  EXPECT_THAT(server_.run("r").files, IsEmpty()) << "without facts";
  End();
  const FakeWandb::Run run = server_.run("r");
  EXPECT_THAT(run.files.at("config.yaml"), HasSubstr("\"lr\":\n  \"value\": 0.1\n"));
  EXPECT_EQ(run.files.at("wandb-summary.json"), run.summary);
  EXPECT_THAT(run.uploaded, ElementsAre("config.yaml", "wandb-summary.json"));
  EXPECT_TRUE(run.complete);
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbDeliveryFilesTest, ARestartSendsNoneTwice) {
  SetFacts();
  stored_.Append(1);
  Deliver();
  const size_t requests = server_.requests().size();
  Restart();
  Deliver();
  for (size_t i = requests; i < server_.requests().size(); ++i) {
    EXPECT_NE(server_.requests()[i].operation, "CreateRunFiles");
  }
}

TEST_F(WandbDeliveryFilesTest, UploadsHaveNoKey) {
  stored_.Append(1);
  End();
  bool any = false;
  for (const auto& request : server_.requests()) {
    if (request.operation.empty() && request.path.find("file_stream") == std::string::npos) {
      any = true;
      EXPECT_EQ(request.authorization, "") << request.path;
    }
  }
  EXPECT_TRUE(any);
}

TEST_F(WandbDeliveryFilesTest, AStoreThatFailsForAMomentGetsThem) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage, .times = 3, .code = 503});
  stored_.Append(1);
  End();
  EXPECT_THAT(server_.run("r").files, Contains(Key("config.yaml")));
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_THAT(letters_, IsEmpty());
}

TEST_F(WandbDeliveryFilesTest, AStoreThatRefusesStopsNothing) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage, .times = 1000, .code = 403});
  SetFacts();
  stored_.Append(3);
  EXPECT_LT(End(), absl::Seconds(1));
  EXPECT_THAT(server_.run("r").history, SizeIs(3));
  EXPECT_THAT(server_.run("r").files, IsEmpty());
  EXPECT_TRUE(stored_delivery_.complete);
  EXPECT_TRUE(server_.run("r").complete);
  ASSERT_THAT(letters_, SizeIs(4));
  EXPECT_THAT(letters_[0].answer, AllOf(HasSubstr("file "), HasSubstr("403")));
  EXPECT_FALSE(IsOfRow(letters_[0]));
}

// All files together have half a minute.
TEST_F(WandbDeliveryFilesTest, AStoreThatIsDownDelaysTheEndBySeconds) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage, .times = 1000, .code = 503});
  SetFacts();
  stored_.Append(3);
  Deliver();
  EXPECT_EQ(stored_delivery_.delivered_rows, 3u);
  const absl::Duration wait = End();
  EXPECT_GT(wait, absl::Seconds(20));
  EXPECT_LT(wait, absl::Minutes(1));
  EXPECT_TRUE(server_.run("r").complete);
  EXPECT_THAT(letters_, SizeIs(4));
}

TEST_F(WandbDeliveryFilesTest, FilesOfALiveRunAreTriedUntilTheStoreIsBack) {
  server_.Inject({.on = FakeWandb::Fault::On::kStorage, .times = 20, .code = 503});
  SetFacts();
  stored_.Append(1);
  for (int i = 0; i < 120 && server_.run("r").files.size() < 2; ++i) {
    now_ += absl::Seconds(15);
    Deliver();
  }
  EXPECT_THAT(server_.run("r").files, SizeIs(2));
  EXPECT_THAT(letters_, IsEmpty());
}

class NoUploadsTest : public WandbDeliveryFilesTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(ByCode, NoUploadsTest, ::testing::Values(500, 403, 404));

TEST_P(NoUploadsTest, AServerThatOffersNoUploadsStopsNothing) {
  server_.Inject({.on = FakeWandb::Fault::On::kGraphql,
                  .times = 1000,
                  .code = GetParam(),
                  .operation = "CreateRunFiles"});
  SetFacts();
  stored_.Append(3);
  Deliver();
  EXPECT_EQ(stored_delivery_.delivered_rows, 3u);
  EXPECT_EQ(stored_delivery_.last_error, "");
  EXPECT_LT(End(), absl::Minutes(1));
  EXPECT_TRUE(server_.run("r").complete);
  EXPECT_THAT(letters_, SizeIs(4));
}

// While it does not answer, one run tries it, and the others go on.
TEST_F(WandbDeliveryFilesTest, AnotherRunsFailureCounts) {
  breakers_->Of("files of " + server_.url())->Failed(absl::Hours(1), "no answer");
  stored_.Append(1);
  EXPECT_LT(End(), absl::Minutes(1));
  EXPECT_TRUE(server_.run("r").complete);
  ASSERT_THAT(letters_, SizeIs(2));
  EXPECT_THAT(letters_[0].answer, HasSubstr("no answer"));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
