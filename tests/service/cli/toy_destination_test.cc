// A destination that only this test knows: the program delivers to it, finds its key and names it,
// without a change anywhere else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ranklog/ranklog.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/cli/node/sync_pipeline.h"
#include "service/daemon/config/config.h"
#include "service/daemon/daemon.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/tracker/tracker_delivery.h"
#include "service/ingest/ingest_credentials.h"
#include "service/ingest/ring/convert.h"
#include "tests/service/storage/store_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::cli {
namespace {

using ranklog::testing::StatusIs;
using ::testing::HasSubstr;

// Puts the number of new rows to URL/rows.
class ToyDelivery : public deliver::TrackerDelivery {
 public:
  ToyDelivery(model::Run run, model::Delivery delivery, const deliver::DeliveryParts& parts)
      : TrackerDelivery(*deliver::FindDestination("toy"), std::move(run), std::move(delivery),
                        parts, {.min = absl::Milliseconds(10)}) {}

 private:
  absl::StatusOr<absl::Duration> Act(storage::StoreReader&, absl::Time now, bool) override {
    if (!ended() && run_.rows == delivery_.delivered_rows) return absl::Milliseconds(50);
    deliver::HttpRequest request;
    request.method = "PUT";
    request.url = server() + "/rows";
    request.body = absl::StrCat(run_.rows - delivery_.delivered_rows);
    const auto answer = Send(std::move(request), /*limited=*/true);
    const deliver::Outcome outcome = deliver::Classify(answer);
    if (outcome != deliver::Outcome::kAccepted) return Failed(outcome, "put rows", answer, now);
    OnSuccess();
    delivery_.delivered_rows = run_.rows;
    delivery_.delivered_items = run_.last_item;
    delivery_.complete = ended();
    delivery_.last_error.clear();
    return ended() ? absl::InfiniteDuration() : absl::ZeroDuration();
  }
  bool IsCreated() const override { return delivery_.delivered_rows > 0; }
  model::Json CursorJson() const override { return model::Json::object(); }
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

  std::unique_ptr<deliver::RunDelivery> Deliver(
      model::Run run, model::Delivery delivery,
      const deliver::DeliveryParts& parts) const override {
    return std::make_unique<ToyDelivery>(std::move(run), std::move(delivery), parts);
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
  // A toy server, which first is busy once.
  ToyDestinationTest() {
    server_.Put("/rows", [this](const httplib::Request& request, httplib::Response& response) {
      tokens_.insert(request.get_header_value("Authorization"));
      if (!std::exchange(was_busy_, true)) {
        response.status = 503;
        response.set_header("Retry-After", "0.01");
      } else {
        delivered_ += std::stoul(request.body);
      }
    });
    url_ = absl::StrCat("http://127.0.0.1:", server_.bind_to_any_port("127.0.0.1"));
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~ToyDestinationTest() override {
    server_.stop();
    thread_.join();
  }

  httplib::Server server_;
  std::thread thread_;
  std::string url_;
  // Used by the server's thread; read after the last answer.
  bool was_busy_ = false;
  std::set<std::string> tokens_;
  std::atomic<uint64_t> delivered_{0};
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
  setenv("TOY_TOKEN", "t", 1);
  const auto pipeline = SyncPipeline::Open(dir_.path());
  unsetenv("TOY_TOKEN");
  ASSERT_OK(pipeline);
  ASSERT_OK((*pipeline)->SetAddress({stored}, *deliver::FindDestination("toy"), url_ + "/"));
  ASSERT_OK((*pipeline)->Start({run}));
  EXPECT_TRUE(testing::WaitFor([&] { return reader_->Deliveries(run)->front().complete; }));
  EXPECT_EQ(reader_->GetRun(run)->settings.Of("toy", "url"), url_);
  EXPECT_EQ(delivered_, 3u);
  EXPECT_THAT(tokens_, ::testing::ElementsAre("Bearer t"));
}

// A program names it and sets it, and the library knows nothing of it.
TEST_F(ToyDestinationTest, ProgramDeliversToIt) {
  const testing::TempDir dir;
  daemon::Config config;
  config.state_dirs = {dir.File("state")};
  config.spool_dirs = {dir.File("spool")};
  config.socket_path = dir.File("d.sock");
  const auto daemon = daemon::Daemon::Start(config);
  ASSERT_OK(daemon);
  Settings settings;
  settings.address = "unix:" + config.socket_path;
  settings.spool_dir = dir.File("spool");
  settings.start_daemon = false;
  settings.destinations = {"toy"};
  settings.destination_settings["toy"] = {{"url", url_}, {"token", "t"}, {"feathers", "7"}};
  settings.finish_timeout = std::chrono::seconds(60);
  settings.delivery_timeout = std::chrono::seconds(60);
  std::vector<std::string> said;
  settings.on_message = [&](Severity, const std::string& text) { said.push_back(text); };
  ranklog::Run run = Init(settings);
  for (int step = 0; step < 5; ++step) EXPECT_TRUE(run.Log({{"loss", 0.5}}, step));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  EXPECT_EQ(delivered_, 5u);
  EXPECT_THAT(tokens_, ::testing::ElementsAre("Bearer t"));
  EXPECT_THAT(said, ::testing::IsSupersetOf(
                        {HasSubstr("goes to toy"),
                         HasSubstr("toy has no setting \"feathers\"; use url; it is ignored"),
                         HasSubstr("all 5 rows of this rank are durable and delivered")}));
  run = ranklog::Run();
  (*daemon)->Stop(absl::ZeroDuration());
}

TEST_F(ToyDestinationTest, ItsNameIsKnown) {
  EXPECT_EQ(deliver::KindsText(), "wandb, mlflow, clickhouse, offline, toy or local");
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
