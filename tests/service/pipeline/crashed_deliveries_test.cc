#include "service/pipeline/delivery/crashed_deliveries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "service/pipeline/delivery/crash_marks.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::SessionOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CrashedDeliveriesTest : public ::testing::Test {
 protected:
  CrashedDeliveriesTest() : store_(storage::Store::Open(dir_.path(), {}).value()) {
    Write([&] {
      run_ = store_->Attach(SessionOf(0), AssignmentOf("job"), 1).value().run;
      return store_->AddDelivery(run_, "wandb");
    });
    Count();
  }

  void Write(const std::function<absl::Status()>& write) {
    ASSERT_OK(store_->Begin());
    EXPECT_OK(write());
    ASSERT_OK(store_->Commit());
  }
  // One process crashes during the delivery, then another starts.
  void CrashAndStart() {
    const pid_t pid = fork();
    if (pid == 0) {
      const rlimit no_core{};
      setrlimit(RLIMIT_CORE, &no_core);
      const DeliveryInProgress under_way(/*worker=*/0, run_, "wandb");
      raise(SIGSEGV);
      _exit(0);
    }
    waitpid(pid, nullptr, 0);
    Count();
  }
  void Count() { CountCrashedDeliveries(dir_.path(), *store_); }
  model::Delivery Stored() {
    const auto reader = storage::StoreReader::Open(dir_.path()).value();
    const auto deliveries = reader->Deliveries(run_);
    EXPECT_OK(deliveries);
    for (const model::Delivery& delivery : *deliveries) {
      if (delivery.kind == "wandb") return delivery;
    }
    return {};
  }

  const testing::TempDir dir_;
  const std::unique_ptr<storage::Store> store_;
  int64_t run_ = 0;
};

TEST_F(CrashedDeliveriesTest, SecondConsecutiveCrashSetsApart) {
  CrashAndStart();
  EXPECT_EQ(Stored().crashes, 1u);
  EXPECT_FALSE(Stored().set_apart());
  model::Delivery delivery = Stored();
  delivery.crashes = 0;
  delivery.delivered_rows = 0;
  delivery.last_error = "HTTP 500";
  Write([&] { return store_->PutDelivery(delivery); });
  EXPECT_EQ(Stored().crashes, 1u) << "what a delivery reports changes them not";
  Count();
  EXPECT_EQ(Stored().crashes, 1u) << "nor does a start without a crash";

  CrashAndStart();
  EXPECT_TRUE(Stored().set_apart());
  EXPECT_THAT(Stored().last_error,
              AllOf(HasSubstr("set apart"), HasSubstr("SIGSEGV"), HasSubstr("sync gpt:job")));
}

TEST_F(CrashedDeliveriesTest, OrderlyStopForgetsSingleCrash) {
  CrashAndStart();
  Write([&] { return store_->ForgetCrashes(); });
  CrashAndStart();
  EXPECT_FALSE(Stored().set_apart());
  CrashAndStart();
  ASSERT_TRUE(Stored().set_apart());
  Write([&] { return store_->ForgetCrashes(); });
  EXPECT_TRUE(Stored().set_apart()) << "until somebody asks for it";
}

TEST_F(CrashedDeliveriesTest, OneCrashEndsTheRetry) {
  CrashAndStart();
  CrashAndStart();
  Write([&] { return store_->TryAgain(run_, "wandb"); });
  EXPECT_FALSE(Stored().set_apart());
  EXPECT_EQ(Stored().last_error, "");
  CrashAndStart();
  EXPECT_TRUE(Stored().set_apart());
}

TEST_F(CrashedDeliveriesTest, AnotherVersionTriesOnce) {
  CrashAndStart();
  CrashAndStart();
  model::Delivery delivery = Stored();
  delivery.crashed_version = "0.0.1";
  Write([&] { return store_->SetCrashes(delivery); });
  Count();
  EXPECT_FALSE(Stored().set_apart());
  EXPECT_EQ(Stored().last_error, "");
  CrashAndStart();
  EXPECT_TRUE(Stored().set_apart());
  Count();
  EXPECT_TRUE(Stored().set_apart()) << "this one has tried";
}

}  // namespace
}  // namespace ranklog::pipeline
