#include "service/pipeline/store_loop.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/builders.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::WaitFor;
using ::testing::ElementsAre;

constexpr absl::Duration kLong = absl::Hours(1);

class StoreLoopTest : public ::testing::Test {
 protected:
  void Start(StoreLoop::Options options) {
    auto store = storage::Store::Open(dir_.path(), {.vfs = vfs_.name()});
    ASSERT_OK(store);
    loop_ = std::make_unique<StoreLoop>(*std::move(store), options);
  }
  // A write that makes a stream for `rank`.
  StoreLoop::Write AttachOf(uint32_t rank, absl::AnyInvocable<void(absl::Status)> done,
                            bool urgent = false, size_t bytes = 0) {
    StoreLoop::Write write;
    write.apply = [rank](storage::Store& store) {
      return store.Attach(SessionOf(rank), AssignmentOf("job"), 1).status();
    };
    write.done = std::move(done);
    write.urgent = urgent;
    write.bytes = bytes;
    return write;
  }
  size_t StreamsInStore() {
    auto reader = storage::StoreReader::Open(dir_.path(), vfs_.name());
    EXPECT_OK(reader);
    const auto streams = (*reader)->LiveStreams();
    EXPECT_OK(streams);
    return streams->size();
  }

  testing::TempDir dir_;
  testing::FaultyVfs vfs_;
  std::unique_ptr<StoreLoop> loop_;
};

TEST_F(StoreLoopTest, AnswersAfterTheCommit) {
  Start({.commit_interval = absl::Milliseconds(1)});
  size_t there = 0;
  absl::Notification answered;
  loop_->Submit(AttachOf(0, [&](absl::Status status) {
    EXPECT_OK(status);
    there = StreamsInStore();
    answered.Notify();
  }));
  answered.WaitForNotification();
  EXPECT_EQ(there, 1u);
}

TEST_F(StoreLoopTest, WritesShareCommitsInOrder) {
  Start({.commit_interval = kLong});
  std::vector<int> order;
  absl::Notification last;
  for (int i = 0; i < 3; ++i) {
    loop_->Submit(AttachOf(
        i,
        [&order, &last, i](absl::Status) {
          order.push_back(i);
          if (i == 2) last.Notify();
        },
        /*urgent=*/i == 2));
  }
  last.WaitForNotification();
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  EXPECT_EQ(loop_->counters().writes, 3u);
  // one, or two if the loop woke between two of the writes
  EXPECT_LE(loop_->counters().commits, 2u);
}

TEST_F(StoreLoopTest, ByteLimitTriggersTheCommit) {
  Start({.commit_interval = kLong, .commit_bytes = 100});
  absl::Notification answered;
  loop_->Submit(AttachOf(
      0, [&](absl::Status) { answered.Notify(); }, false, /*bytes=*/100));
  answered.WaitForNotification();
}

TEST_F(StoreLoopTest, FailedWriteIsUndoneAlone) {
  Start({.commit_interval = kLong});
  absl::Status failed;
  absl::Notification answered;
  StoreLoop::Write bad = AttachOf(1, [&](absl::Status status) { failed = std::move(status); });
  bad.apply = [apply = std::move(bad.apply)](storage::Store& store) mutable {
    EXPECT_OK(apply(store));
    return absl::InvalidArgumentError("no");
  };
  loop_->Submit(AttachOf(0, nullptr));
  loop_->Submit(std::move(bad));
  loop_->Submit(AttachOf(
      2,
      [&](absl::Status status) {
        EXPECT_OK(status);
        answered.Notify();
      },
      /*urgent=*/true));
  answered.WaitForNotification();
  EXPECT_THAT(failed, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(StreamsInStore(), 2u);
  EXPECT_EQ(loop_->counters().refused_writes, 1u);
}

TEST_F(StoreLoopTest, FullDiskKeepsWritesAndRecovers) {
  Start({.commit_interval = absl::Milliseconds(1),
         .max_queued_bytes = 10,
         .retry_interval = absl::Milliseconds(1)});
  vfs_.FailWrites(1, ENOSPC);
  std::atomic<bool> answered{false};
  loop_->Submit(AttachOf(
      0,
      [&](absl::Status status) {
        EXPECT_OK(status);
        answered = true;
      },
      /*urgent=*/true, /*bytes=*/10));
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().failed_commits >= 3; }));
  EXPECT_FALSE(answered);
  EXPECT_TRUE(loop_->full());
  EXPECT_NE(loop_->counters().last_error, "");
  vfs_.Heal();
  ASSERT_TRUE(WaitFor([&] { return answered.load(); }));
  EXPECT_FALSE(loop_->full());
  EXPECT_EQ(loop_->counters().last_error, "");
  EXPECT_EQ(StreamsInStore(), 1u);
}

TEST_F(StoreLoopTest, StoppingCommitsWhatWasSubmitted) {
  Start({.commit_interval = kLong});
  absl::Status status = absl::UnknownError("not answered");
  loop_->Submit(AttachOf(0, [&](absl::Status answer) { status = std::move(answer); }));
  loop_->Stop();
  EXPECT_OK(status);
  EXPECT_EQ(StreamsInStore(), 1u);
  EXPECT_THAT(loop_->SubmitAndWait([](storage::Store&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kUnavailable));
  loop_->Stop();
}

TEST_F(StoreLoopTest, StopOnFullDiskReturnsUnavailable) {
  Start({.commit_interval = absl::Milliseconds(1)});
  vfs_.FailWrites(1, ENOSPC);
  absl::Status status;
  loop_->Submit(AttachOf(
      0, [&](absl::Status answer) { status = std::move(answer); }, true));
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().failed_commits > 0; }));
  loop_->Stop();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable));
  vfs_.Heal();
}

TEST_F(StoreLoopTest, CheckpointsOnlyAfterWrites) {
  Start({.commit_interval = absl::Milliseconds(1), .checkpoint_interval = absl::Milliseconds(1)});
  EXPECT_OK(loop_->SubmitAndWait([](storage::Store& store) {
    return store.Attach(SessionOf(0), AssignmentOf("job"), 1).status();
  }));
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().checkpoints == 1; }));
  EXPECT_OK(loop_->SubmitAndWait([](storage::Store&) { return absl::OkStatus(); }));
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().checkpoints == 2; }));
}

TEST_F(StoreLoopTest, WithoutThreadsStepCommitsEverything) {
  Start({.threads = false});
  int answered = 0;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    loop_->Submit(AttachOf(rank, [&](absl::Status status) {
      EXPECT_OK(status);
      ++answered;
    }));
  }
  EXPECT_EQ(answered, 0);
  EXPECT_EQ(loop_->Step(), absl::InfiniteDuration());
  EXPECT_EQ(answered, 3);
  EXPECT_EQ(StreamsInStore(), 3u);
  EXPECT_EQ(loop_->counters().commits, 1u);
}

TEST_F(StoreLoopTest, WithoutThreadsTheCallerRetries) {
  Start({.threads = false});
  absl::Status answer = absl::UnknownError("none");
  loop_->Submit(AttachOf(0, [&](absl::Status status) { answer = status; }));
  vfs_.FailWrites(1, ENOSPC);
  EXPECT_EQ(loop_->Step(), absl::Seconds(1));
  // This write cannot wait for space; the first one can.
  EXPECT_THAT(loop_->SubmitAndWait([](storage::Store&) { return absl::OkStatus(); }),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnknown));
  vfs_.Heal();
  EXPECT_EQ(loop_->Step(), absl::InfiniteDuration());
  EXPECT_OK(answer);
  EXPECT_EQ(StreamsInStore(), 1u);
}

// Whether the loop would count as hanging if nothing happened for an hour.
bool IsInTurn(const StoreLoop& loop) {
  return loop.Silence(SteadyNow() + absl::Hours(1)) >= absl::Hours(1);
}

TEST_F(StoreLoopTest, WriteThatHangsIsSilence) {
  Start({});
  ASSERT_TRUE(WaitFor([&] { return !IsInTurn(*loop_); })) << "waits for work";
  absl::Notification go_on;
  loop_->Submit({.apply =
                     [&](storage::Store&) {
                       go_on.WaitForNotification();
                       return absl::OkStatus();
                     },
                 .done = nullptr,
                 .urgent = true});
  EXPECT_TRUE(WaitFor([&] { return IsInTurn(*loop_); }));
  go_on.Notify();
  EXPECT_TRUE(WaitFor([&] { return !IsInTurn(*loop_); }));
}

TEST_F(StoreLoopTest, FullDiskIsNotSilence) {
  Start({.retry_interval = kLong});
  vfs_.FailWrites(1, ENOSPC);
  Pulse waiting;
  std::thread waiter([&] {
    const Pulse::Loop loop(&waiting);
    loop_
        ->SubmitAndWait([](storage::Store& store) {
          return store.Attach(SessionOf(0), AssignmentOf("job"), 1).status();
        })
        .IgnoreError();  // cancelled
  });
  EXPECT_TRUE(WaitFor([&] { return loop_->counters().failed_commits == 1; }));
  EXPECT_TRUE(WaitFor([&] { return !IsInTurn(*loop_); }));
  EXPECT_TRUE(
      WaitFor([&] { return waiting.Silence(absl::InfiniteFuture()) == absl::ZeroDuration(); }));
  loop_->StopRetrying();
  waiter.join();
}

}  // namespace
}  // namespace ranklog::pipeline
