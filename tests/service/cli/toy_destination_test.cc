// A destination that only this test knows: the program delivers to it, finds its key and names it,
// without a change anywhere else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/deliver/destination.h"
#include "service/ingest/convert.h"
#include "service/ingest/ingest_credentials.h"
#include "tests/service/storage/store_fixture.h"
#include "tests/support/child_process.h"

namespace ranklog::cli {
namespace {

using ranklog::testing::StatusIs;
using ::testing::HasSubstr;

std::atomic<uint64_t> delivered{0};  // rows at the toy server

class ToyDelivery : public deliver::RunDelivery {
 public:
  explicit ToyDelivery(model::Delivery delivery) : delivery_(std::move(delivery)) {}

  deliver::StepResult Step(storage::StoreReader& reader, absl::Time /*now*/,
                           bool /*draining*/) override {
    const absl::StatusOr<model::Run> run = reader.GetRun(delivery_.run);
    EXPECT_OK(run);
    delivered += run->rows - delivery_.delivered_rows;
    delivery_.delivered_rows = run->rows;
    delivery_.delivered_items = run->last_item;
    delivery_.complete = run->state != model::RunState::kRunning;
    deliver::StepResult result;
    result.delivery = delivery_;
    result.changed = true;
    result.wait = delivery_.complete ? absl::InfiniteDuration() : absl::Seconds(1);
    result.exchange = deliver::StepResult::Exchange::kAnswered;
    return result;
  }

 private:
  model::Delivery delivery_;
};

class Toy : public deliver::Destination {
 public:
  Toy()
      : Destination({.kind = "toy",
                     .name = "Toy",
                     .url_setting = "url",
                     .public_url = "",
                     .key_variable = "TOY_TOKEN",
                     .user_variable = "TOY_USER",
                     .other_login = "",
                     .verify = "  toy    Not at all.\n"}) {}

  std::unique_ptr<deliver::RunDelivery> Deliver(model::Run /*run*/, model::Delivery delivery,
                                                const deliver::DeliveryParts&) const override {
    return std::make_unique<ToyDelivery>(std::move(delivery));
  }
  absl::StatusOr<std::string> AccountOf(deliver::Transport&, const std::string&,
                                        const deliver::Credential& credential,
                                        absl::Duration) const override {
    return credential.user;
  }
  absl::StatusOr<deliver::ReadBackReport> ReadBack(storage::StoreReader&, const model::Run&,
                                                   const model::Delivery&, deliver::Transport&,
                                                   const deliver::Credential&,
                                                   const deliver::ReadBackOptions&) const override {
    return deliver::ReadBackReport();
  }
};

class ToyDestinationTest : public testing::StoreTest {
 protected:
  static void SetUpTestSuite() {
    static const bool once = [] {
      deliver::Register(std::make_unique<Toy>());
      return true;
    }();
    ASSERT_TRUE(once);
  }
};

TEST_F(ToyDestinationTest, RunIsDelivered) {
  model::Session session = testing::SessionOf(0, 7, "job");
  session.settings.destinations = {"toy"};
  session.settings.destination_settings["toy"]["url"] = "http://127.0.0.1:1";
  int64_t run = 0;
  Do([&] {
    const auto stream = store_->Attach(session, testing::AssignmentOf("job"), 1000);
    ASSERT_OK(stream);
    run = stream->run;
    EXPECT_OK(store_->DefineRunShape(run, 1, testing::Keys(2)));
    EXPECT_OK(store_->AppendRunRows(run, testing::Dense(0, 3, 1, 2)));
    EXPECT_OK(store_->AddDelivery(run, "toy"));
    EXPECT_OK(store_->EndStream(stream->id, model::StreamState::kFinished, 0, "", 2000));
    EXPECT_OK(store_->CloseRun(run, model::RunState::kFinished, 0, "", 3000));
  });
  const model::Run stored = *reader_->GetRun(run);
  EXPECT_THAT(deliver::FindDestination("toy")->ServerOf(stored.settings),
              testing::IsOkAndHolds("http://127.0.0.1:1"));
  store_.reset();
  const auto pipeline = SyncPipeline::Open(dir_.path());
  ASSERT_OK(pipeline);
  ASSERT_OK((*pipeline)->SetAddress({stored}, *deliver::FindDestination("toy"), "http://[::1]:2/"));
  ASSERT_OK((*pipeline)->Start({run}));
  EXPECT_TRUE(testing::WaitFor([&] { return reader_->Deliveries(run)->front().complete; }));
  EXPECT_EQ(reader_->GetRun(run)->settings.Of("toy", "url"), "http://[::1]:2");
  EXPECT_EQ(delivered, 3u);
}

TEST_F(ToyDestinationTest, ItsNameIsKnown) {
  EXPECT_EQ(deliver::KindsText(), "wandb, toy or local");
  v1::Hello hello;
  hello.set_protocol(v1::kProtocolVersion);
  hello.mutable_stream()->set_project("p");
  hello.mutable_stream()->set_job_id("j");
  hello.mutable_stream()->set_incarnation(1);
  hello.mutable_identity()->set_world_size(1);
  v1::Destination* const toy = hello.mutable_settings()->add_destinations();
  toy->set_kind("toy");
  toy->set_chosen(true);
  (*toy->mutable_settings())["TOY_URL"] = "https://toy";
  ASSERT_OK_AND_ASSIGN(const model::Session session, ingest::ToSession(hello));
  EXPECT_THAT(session.settings.destinations, ::testing::ElementsAre("toy"));
  EXPECT_EQ(session.settings.Of("toy", "url"), "https://toy");
  EXPECT_THAT(session.mistakes, ::testing::IsEmpty());
}

TEST_F(ToyDestinationTest, ItsKeyComesFromItsVariables) {
  setenv("TOY_TOKEN", "t", 1);
  setenv("TOY_USER", "me", 1);
  deliver::CredentialStore keys(deliver::CredentialStore::Options::FromEnvironment(dir_.path()));
  unsetenv("TOY_TOKEN");
  unsetenv("TOY_USER");
  const deliver::Account account = {
      .destination = *deliver::FindDestination("toy"), .server = "https://toy", .project = "p"};
  const deliver::Credential own = {.user = "me", .secret = "t"};
  EXPECT_THAT(keys.Find("", account), testing::IsOkAndHolds(own));

  model::Session session;
  session.stream = {.project = "p", .job_id = "j", .rank = 0, .incarnation = 1};
  session.settings.destination_settings["toy"]["url"] = "https://toy";
  ingest::IngestCredentials(&keys).remember(session, {{"TOY_TOKEN", "of the rank"}});
  const deliver::Credential given = {.user = "", .secret = "of the rank"};
  EXPECT_THAT(keys.Find(deliver::JobOf("p", "j"), account), testing::IsOkAndHolds(given));
}

TEST_F(ToyDestinationTest, ServerAndLoginAreNamed) {
  const deliver::Destination& toy = *deliver::FindDestination("toy");
  EXPECT_THAT(toy.CheckUrl(""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("set TOY_URL")));
  EXPECT_EQ(toy.LoginCommand("https://toy"), "`ranklog login toy --base-url https://toy`");
}

}  // namespace
}  // namespace ranklog::cli
