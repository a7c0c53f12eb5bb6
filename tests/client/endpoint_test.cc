#include "client/stream/endpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/client/fake_ingest.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class QuietRun : public StreamedRun {
 public:
  const Settings& settings() const override { return settings_; }
  const std::map<std::string, std::string>& job_variables() const override { return variables_; }
  int64_t open_step() const override { return 0; }
  bool IsInherited() const override { return false; }
  void SetLastError(std::string) override {}
  void SetConnectionError(std::string error) override { connection_error_ = std::move(error); }
  void OnServerMessage(const v1::ServerMessage&) override {}
  bool AwaitsDelivery() const override { return false; }
  void StopAwaitingDelivery() override {}
  bool PrintMessages(steady_clock::time_point, bool) override { return false; }
  void StopCallbacks() override {}
  void FinishAtExit(int) override {}

  const std::string& connection_error() const { return connection_error_; }

 private:
  const Settings settings_{};
  const std::map<std::string, std::string> variables_{};
  std::string connection_error_;
};

class EndpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    daemon_.Start();
    auto spool = Spool::Create({dir_.path(), v1::kMinRingBytes}, v1::Hello());
    ASSERT_TRUE(spool.ok()) << spool.status();
    ring_ = std::make_shared<Ring>(*std::move(spool));
  }

  // A row that the daemon must acknowledge.
  void LogRow() {
    const Metric row[] = {{"loss", 0.5}};
    ASSERT_EQ(ring_->writer.Write(row, RowStep::Taken(0)), WriteResult::kTaken);
  }

  static void Tick(Endpoint* endpoint) {
    endpoint->Tick(steady_clock::now() + milliseconds(20), /*urgent=*/true, [] { return false; });
  }

  testing::TempDir dir_;
  const std::string socket_ = dir_.File("sock");
  testing::FakeIngest daemon_{socket_};
  const std::shared_ptr<QuietRun> run_ = std::make_shared<QuietRun>();
  std::shared_ptr<Ring> ring_;
};

// Such as gRPC, when it reads nothing more of a connection that works.
TEST_F(EndpointTest, ConnectsAgainIfNoAnswerComes) {
  daemon_.HoldAcks(true);
  Endpoint endpoint("unix:" + socket_, milliseconds(200));
  endpoint.Add(run_, ring_);
  LogRow();
  bool reported = false;
  EXPECT_TRUE(testing::WaitFor([&] {
    Tick(&endpoint);
    reported = reported || run_->connection_error() == "the daemon does not answer";
    return ring_->durable_rows == 1;
  }));
  EXPECT_TRUE(reported);
  EXPECT_GE(daemon_.attaches(), 2);
  EXPECT_EQ(daemon_.row_count(), 1u);
  EXPECT_EQ(daemon_.error(), "");
}

TEST_F(EndpointTest, AcknowledgementsKeepConnection) {
  Endpoint endpoint("unix:" + socket_, std::chrono::seconds(1));
  endpoint.Add(run_, ring_);
  const auto end = steady_clock::now() + milliseconds(2500);
  while (steady_clock::now() < end) {
    LogRow();
    Tick(&endpoint);
  }
  EXPECT_GT(daemon_.row_count(), 1u);
  EXPECT_EQ(daemon_.attaches(), 1);
}

TEST_F(EndpointTest, AnyAnswerKeepsConnection) {
  daemon_.HoldAcks(true);
  auto spool = Spool::Create({dir_.path(), v1::kMinRingBytes}, v1::Hello());
  ASSERT_TRUE(spool.ok()) << spool.status();
  const auto other = std::make_shared<Ring>(*std::move(spool));
  Endpoint endpoint("unix:" + socket_, std::chrono::seconds(1));
  endpoint.Add(run_, ring_);
  endpoint.Add(run_, other);
  EXPECT_TRUE(testing::WaitFor([&] {
    Tick(&endpoint);
    return ring_->attached.load() && other->attached.load();
  }));
  LogRow();
  const auto end = steady_clock::now() + milliseconds(2500);
  for (uint64_t updates = 1; steady_clock::now() < end; ++updates) {
    v1::Item update;
    update.mutable_config();
    ASSERT_EQ(other->writer.WriteItem(update.SerializeAsString()), WriteResult::kTaken);
    EXPECT_TRUE(testing::WaitFor([&] {
      Tick(&endpoint);
      return other->durable_items == updates;
    }));
  }
  EXPECT_EQ(daemon_.attaches(), 2);  // one for each ring
  EXPECT_TRUE(testing::WaitFor([&] {
    Tick(&endpoint);
    return daemon_.attaches() > 2;
  }));
}

// As by SIGSTOP. The answers may wait in the socket.
TEST_F(EndpointTest, PauseOfProcessIsNotSilenceOfDaemon) {
  daemon_.HoldAcks(true);
  Endpoint endpoint("unix:" + socket_, milliseconds(1000));
  endpoint.Add(run_, ring_);
  LogRow();
  EXPECT_TRUE(testing::WaitFor([&] {
    Tick(&endpoint);
    return daemon_.row_count() == 1;
  }));
  std::this_thread::sleep_for(run_->settings().flush_interval + milliseconds(2100));
  Tick(&endpoint);
  EXPECT_EQ(run_->connection_error(), "");
  EXPECT_EQ(daemon_.attaches(), 1);
}

TEST_F(EndpointTest, KeepsConnectionWhileNothingIsAwaited) {
  Endpoint endpoint("unix:" + socket_, milliseconds(1));
  endpoint.Add(run_, ring_);
  EXPECT_TRUE(testing::WaitFor([&] {
    Tick(&endpoint);
    return ring_->attached.load();
  }));
  const auto end = steady_clock::now() + milliseconds(300);
  while (steady_clock::now() < end) Tick(&endpoint);
  EXPECT_EQ(daemon_.attaches(), 1);
}

}  // namespace
}  // namespace ranklog::internal
