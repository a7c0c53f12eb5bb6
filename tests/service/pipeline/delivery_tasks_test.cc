#include "service/pipeline/delivery/delivery_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ranklog::pipeline {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

class DeliveryTasksTest : public ::testing::Test {
 protected:
  void Add(int64_t id, const std::string& server = "") {
    model::Run run;
    run.id = id;
    run.settings.destination_settings["wandb"]["base_url"] = server;
    model::Delivery delivery;
    delivery.run = id;
    delivery.kind = "wandb";
    tasks_.Add(delivery, run);
  }
  // Takes the next task; returns its run, or 0 if no task is due.
  int64_t Take(int now) {
    task_ = tasks_.Take(At(now), &key_, &next_);
    return task_ == nullptr ? 0 : key_.first;
  }
  // Ends the step of the task that was taken last.
  DeliveryTasks::ErrorChange Finish(int now, const std::string& error = "", bool complete = false) {
    deliver::StepResult result;
    result.live = true;
    result.delivery.last_error = error;
    result.delivery.complete = complete;
    return tasks_.Finish(key_, *task_, {.wait = absl::Seconds(100), .result = &result}, At(now));
  }

  DeliveryTasks tasks_{
      {.workers = 2, .notify_interval = absl::Seconds(5), .silence = absl::Seconds(10)}};
  DeliveryTasks::Key key_;
  DeliveryTasks::Task* task_ = nullptr;
  absl::Time next_;
};

TEST_F(DeliveryTasksTest, SteppingTaskIsNotTakenAgain) {
  Add(1);
  EXPECT_EQ(Take(1), 1);
  EXPECT_EQ(tasks_.Take(At(1), &key_, &next_), nullptr);
  Finish(2);
  EXPECT_EQ(Take(101), 0);
  EXPECT_EQ(next_, At(102));
  EXPECT_EQ(Take(102), 1);
}

TEST_F(DeliveryTasksTest, NewRowsScheduleStepAfterInterval) {
  Add(1);
  Take(1);
  Finish(2);
  EXPECT_TRUE(tasks_.NotifyRows(1, At(3)));
  EXPECT_FALSE(tasks_.NotifyRows(1, At(3))) << "it is due already";
  EXPECT_EQ(Take(6), 0);
  EXPECT_EQ(Take(7), 1);
}

TEST_F(DeliveryTasksTest, CompleteTaskIsGone) {
  Add(1);
  Take(1);
  Finish(2, "", /*complete=*/true);
  EXPECT_EQ(tasks_.size(), 0u);
}

TEST_F(DeliveryTasksTest, TaskReopenedDuringLastStepStays) {
  Add(1);
  Take(1);
  Add(1);
  Finish(2, "", /*complete=*/true);
  EXPECT_EQ(Take(2), 1);
}

TEST_F(DeliveryTasksTest, ErrorChangesAreReportedOnce) {
  Add(1);
  Take(1);
  EXPECT_TRUE(Finish(2, "refused").changed);
  EXPECT_EQ(tasks_.failing(), 1u);
  Take(200);
  EXPECT_FALSE(Finish(200, "refused").changed);
  Take(400);
  EXPECT_TRUE(Finish(400).changed);
  EXPECT_EQ(tasks_.failing(), 0u);
}

// The second worker stays free for another server.
TEST_F(DeliveryTasksTest, OneServerCannotTakeAllWorkers) {
  Add(1, "https://a");
  Add(2, "https://a");
  Add(3, "https://b");
  EXPECT_EQ(Take(1), 1);
  EXPECT_EQ(Take(1), 3);
}

TEST_F(DeliveryTasksTest, SetApartDeliveryGetsNoTask) {
  model::Delivery delivery;
  delivery.run = 1;
  delivery.crashes = 100;
  ASSERT_TRUE(delivery.set_apart());
  tasks_.Add(delivery, model::Run());
  EXPECT_EQ(tasks_.size(), 0u);
  EXPECT_EQ(tasks_.set_apart(), 1u);
  tasks_.RemoveRun(1, At(1));
  EXPECT_EQ(tasks_.set_apart(), 0u);
}

TEST_F(DeliveryTasksTest, TasksBehindHangingRequestAreSilent) {
  Add(1);
  Add(2);
  EXPECT_EQ(Take(1), 1);
  absl::Time next;
  EXPECT_THAT(tasks_.FindSilent(At(2), &next), IsEmpty());
  const std::vector<DeliveryTasks::Silent> silent = tasks_.FindSilent(At(12), &next);
  ASSERT_THAT(silent, SizeIs(2));
  EXPECT_EQ(silent[1].since, At(1));
  Finish(13);
  EXPECT_FALSE(tasks_.SetSilence({key_, At(1), At(0)}, "no answer")) << "an older step";
  EXPECT_TRUE(tasks_.SetSilence(silent[1], "no answer"));
  tasks_.EndSilent(silent, /*stored=*/true);
  EXPECT_EQ(tasks_.failing(), 1u);
}

// Nobody asks the server, so no answer could end its silence.
TEST_F(DeliveryTasksTest, SlowStepWithoutRequestIsNoSilence) {
  Add(1, "http://tracker");
  ASSERT_EQ(Take(1), 1);
  ASSERT_THAT(tasks_.FindSilent(At(12), &next_), SizeIs(1));
  deliver::StepResult result;
  tasks_.UpdateSilence(*task_, At(13), &result);
  Finish(13);
  Add(2, "http://tracker");
  ASSERT_EQ(Take(14), 2);
  EXPECT_THAT(tasks_.FindSilent(At(18), &next_), IsEmpty());
}

}  // namespace
}  // namespace ranklog::pipeline
