// What a signal handler may do during a call of its thread. Here the handler is a call from inside
// the code that writes the row, so it always comes at the same moment. process_test.cc has real
// signals.

#include "client/run/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/run/log_row.h"
#include "tests/client/ring_file.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class RunStateTest : public ::testing::Test {
 protected:
  RunStateTest() { run_ = RunState::Create(RankSettings()); }

  Settings RankSettings() const {
    Settings settings;
    settings.address = "unix:" + dir_.File("sock");
    settings.spool_dir = dir_.path();
    settings.spool_bytes = 1 << 20;
    settings.start_daemon = false;
    settings.quiet = true;
    settings.metadata = false;  // the rings have what the tests write
    return settings;
  }

  // Logs a row, and calls `handler` when half of it is written.
  bool Log(const std::function<void()>& handler = [] {}) {
    const Metric row[] = {{"loss", 1}};
    return run_->LogRow(nullptr, [&](RingWriter& writer, const RowStep& step) {
      handler();
      return writer.Write(row, step);
    });
  }

  testing::RingFile File() {
    const std::vector<std::string> paths = testing::RingPaths(dir_.path());
    EXPECT_THAT(paths, SizeIs(1));
    return testing::ReadRing(paths.at(0));
  }

  testing::TempDir dir_;
  std::shared_ptr<RunState> run_;
};

TEST_F(RunStateTest, NestedLogIsRefusedAndCounted) {
  EXPECT_TRUE(Log([this] {
    EXPECT_FALSE(Log());
    EXPECT_FALSE(Log());
  }));
  EXPECT_TRUE(Log());
  EXPECT_THAT(File().rows, SizeIs(2));
  EXPECT_EQ(File().error, "");
  EXPECT_EQ(run_->GetStats().lost_invalid, 2u);
  EXPECT_THAT(run_->GetStats().last_error, HasSubstr("a signal handler"));
}

TEST_F(RunStateTest, UpdateWithinLogIsRefused) {
  v1::Item update;
  update.mutable_config()->add_fields()->set_key("lr");
  EXPECT_TRUE(Log([&] { EXPECT_FALSE(run_->AddItem(update)); }));
  EXPECT_TRUE(run_->AddItem(update));
  EXPECT_EQ(run_->GetStats().updates_refused, 1u);
  EXPECT_THAT(File().items, SizeIs(1));
  EXPECT_EQ(File().error, "");
}

// Finish() cannot wait for the row that it interrupts.
TEST_F(RunStateTest, FinishDuringLogDoesNotWait) {
  EXPECT_TRUE(
      Log([this] { EXPECT_EQ(run_->Finish(3, milliseconds(60000)), FlushResult::kSpooled); }));
  EXPECT_TRUE(File().finished);
  EXPECT_EQ(File().exit_code, 3);
  EXPECT_FALSE(Log());
  EXPECT_EQ(run_->GetStats().lost_after_finish, 1u);
  EXPECT_EQ(run_->Finish(0, milliseconds(0)), FlushResult::kSpooled);
  EXPECT_EQ(File().exit_code, 3);
  EXPECT_THAT(File().rows, SizeIs(1));
}

// A daemon learns of a loss only from a ring.
TEST_F(RunStateTest, FirstRingHasLossesFromBeforeIt) {
  run_->Finish(0, milliseconds(0));
  std::filesystem::remove(testing::RingPaths(dir_.path()).at(0));
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const int first_free = dup(STDERR_FILENO);
  close(first_free);
  const rlimit none_left{static_cast<rlim_t>(first_free), usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  run_ = RunState::Create(RankSettings());
  EXPECT_FALSE(Log());
  EXPECT_FALSE(Log());
  EXPECT_EQ(run_->GetStats().lost_ring_full, 2u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  ASSERT_TRUE(testing::WaitFor([this] { return Log(); }));  // the next try is after a second
  EXPECT_GE(File().lost_ring_full, 2u);
  EXPECT_EQ(File().lost_ring_full, run_->GetStats().lost_ring_full);
}

}  // namespace
}  // namespace ranklog::internal
