// The messages and exit codes of `ranklog sync`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "service/storage/directories/state_lock.h"
#include "tests/integration/cli_fixture.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CliTest, SyncWithoutKeySuggestsKeyLocations) {
  store_.reset();
  options_.environment["HOME"] = dir_.path();
  options_.unset.push_back("NETRC");
  const Finished finished = Ranklog({"sync"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, AllOf(HasSubstr("WANDB_API_KEY"), HasSubstr(".netrc"),
                                     Not(HasSubstr("since the daemon started"))));
  EXPECT_THAT(finished.output, HasSubstr("gpt:job1  wandb  2 of 5 rows delivered, 1 refused"));
  EXPECT_THAT(finished.output, HasSubstr(", 2 left")) << "as --help promises";
}

TEST_F(CliTest, SyncReportsUndeliveredRowsAndCause) {
  store_.reset();
  options_.environment["WANDB_API_KEY"] = std::string(40, 'a');
  const Finished finished = Ranklog({"sync", "--timeout", "500ms"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output,
              AllOf(HasSubstr("gpt:job1  wandb  2 of 5 rows delivered, 1 refused"),
                    HasSubstr("2 left"), HasSubstr("127.0.0.1"), HasSubstr("1 of 2 runs stays on"),
                    HasSubstr("sync job2 --to wandb` to upload it")));
  EXPECT_THAT(finished.output, AllOf(Not(HasSubstr("[warning]")), Not(HasSubstr("503"))))
      << "of this try";
}

TEST_F(CliTest, SyncOfLocalRunRequiresDestination) {
  store_.reset();
  const Finished finished = Ranklog({"sync", "other"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("--to wandb"));
}

TEST_F(CliTest, SyncEndsWhenStoreIsRemoved) {
  store_.reset();
  options_.environment["WANDB_API_KEY"] = std::string(40, 'a');
  ChildProcess sync({RANKLOG_CLI, "sync", "--timeout", "1h", "--state-dir", state_dir()}, options_);
  ASSERT_TRUE(WaitFor([&] { return absl::StrContains(sync.Output(), "127.0.0.1"); }));
  // Removes it at once, like rm -rf between two checks.
  std::filesystem::rename(state_dir(), state_dir() + ".gone");
  EXPECT_EQ(sync.Wait(), 1) << sync.Output();
  EXPECT_THAT(sync.Output(), HasSubstr(state_dir() + "/ranklog.db was removed or replaced"));
}

TEST_F(CliTest, SyncFollowsDaemonHoldingStore) {
  ASSERT_OK_AND_ASSIGN(const storage::StateLock lock, storage::StateLock::Acquire(state_dir()));
  ChildProcess sync({RANKLOG_CLI, "sync", "--state-dir", state_dir()}, options_);
  model::Delivery delivery;
  delivery.run = run_;
  delivery.kind = "wandb";
  delivery.delivered_rows = 5;
  delivery.delivered_items = std::numeric_limits<int64_t>::max();
  delivery.complete = true;
  ASSERT_TRUE(WaitFor([&] { return absl::StrContains(sync.Output(), "HTTP 503"); }));
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->PutDelivery(delivery));
  ASSERT_OK(store_->Commit());
  EXPECT_EQ(sync.Wait(), 0) << sync.Output();
  EXPECT_THAT(sync.Output(), HasSubstr("5 of 5 rows delivered"));
  EXPECT_EQ(Ranklog({"sync", "other", "--to", "wandb"}).code, 1) << "only the holder may write";
  EXPECT_THAT(Ranklog({"sync", "other", "--base-url", "https://a"}).output,
              HasSubstr("wait until it ends"))
      << "`stop` ends no other process than a daemon";
}

}  // namespace
}  // namespace ranklog::testing
