#include "service/pipeline/delivery/deliver_loop.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/service/storage/builders.h"
#include "tests/support/child_process.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::pipeline {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::WaitFor;

// State and answers of the fake tracker, shared by the test and the workers.
struct Tracker {
  absl::Mutex mutex;
  std::map<std::string, int> created ABSL_GUARDED_BY(mutex);  // deliveries, by run id
  std::map<std::string, int> steps ABSL_GUARDED_BY(mutex);    // by run id
  bool saw_draining ABSL_GUARDED_BY(mutex) = false;
  bool working ABSL_GUARDED_BY(mutex) = true;
  absl::Duration wait ABSL_GUARDED_BY(mutex) = absl::Hours(1);
  std::vector<std::string> order ABSL_GUARDED_BY(mutex);  // run ids in the order of their steps
  std::set<std::string> hanging ABSL_GUARDED_BY(mutex);   // runs whose steps do not return
  std::set<std::string> at_gate ABSL_GUARDED_BY(mutex);   // runs whose circuit breaker is open
  bool held ABSL_GUARDED_BY(mutex) = false;               // no step returns
  // a step began before the last result was stored
  bool unsaved_step ABSL_GUARDED_BY(mutex) = false;

  int StepsOf(const std::string& run) {
    absl::MutexLock lock(&mutex);
    return steps[run];
  }
};

// Delivers one row per step, and is complete after three.
class FakeDelivery : public deliver::RunDelivery {
 public:
  FakeDelivery(std::string run_id, model::Delivery delivery, Tracker* tracker)
      : run_id_(std::move(run_id)), delivery_(std::move(delivery)), tracker_(tracker) {
    absl::MutexLock lock(&tracker_->mutex);
    ++tracker_->created[run_id_];
  }

  deliver::StepResult Step(storage::StoreReader& reader, absl::Time, bool draining) override {
    const auto stored = reader.Deliveries(delivery_.run);
    EXPECT_OK(stored);
    absl::MutexLock lock(&tracker_->mutex);
    ++tracker_->steps[run_id_];
    tracker_->order.push_back(run_id_);
    tracker_->saw_draining |= draining;
    if (stored->front().delivered_rows != delivery_.delivered_rows) tracker_->unsaved_step = true;
    deliver::StepResult result;
    result.delivery = delivery_;
    result.wait = absl::Milliseconds(5);
    if (tracker_->at_gate.count(run_id_) > 0) return result;
    result.exchange = deliver::StepResult::Exchange::kAnswered;
    if (tracker_->working) {
      ++delivery_.delivered_rows;
      delivery_.complete = delivery_.delivered_rows == 3;
    }
    delivery_.last_error = tracker_->working ? "" : "HTTP 500";
    result.delivery = delivery_;
    result.changed = true;
    result.wait = draining ? absl::ZeroDuration() : tracker_->wait;
    const auto released = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracker_->mutex) {
      return !tracker_->held && tracker_->hanging.count(run_id_) == 0;
    };
    tracker_->mutex.Await(absl::Condition(&released));
    return result;
  }

 private:
  const std::string run_id_;
  model::Delivery delivery_;
  Tracker* const tracker_;
};

class DeliverLoopTest : public ::testing::Test {
 protected:
  DeliverLoopTest() {
    auto store = storage::Store::Open(dir_.path(), {});
    EXPECT_OK(store);
    store_ = std::make_unique<StoreLoop>(
        *std::move(store), StoreLoop::Options{.commit_interval = absl::Milliseconds(1)});
  }
  void Start(int workers = 2) {
    std::vector<DeliverLoop::Worker> made;
    for (int i = 0; i < workers; ++i) made.push_back(WorkerThatReads(Reader()));
    loop_ = std::make_unique<DeliverLoop>(
        store_.get(), std::move(made),
        DeliverLoop::Options{
            .notify_interval = absl::Milliseconds(1), .silence = silence_, .on_step = on_step_});
    loop_->Start();
  }
  DeliverLoop::Worker WorkerThatReads(std::unique_ptr<storage::StoreReader> reader) {
    return {std::move(reader),
            [this](const model::Run& run, const model::Delivery& delivery) {
              return std::make_unique<FakeDelivery>(run.run_id, delivery, &tracker_);
            },
            nullptr};
  }
  std::vector<DeliverLoop::Worker> OneWorker(std::unique_ptr<storage::StoreReader> reader) {
    std::vector<DeliverLoop::Worker> workers;
    workers.push_back(WorkerThatReads(std::move(reader)));
    return workers;
  }
  std::unique_ptr<storage::StoreReader> Reader() {
    auto reader = storage::StoreReader::Open(dir_.path());
    EXPECT_OK(reader);
    return *std::move(reader);
  }
  // Adds a run, ended or not, with a pending delivery to a server.
  int64_t AddRun(const std::string& run_id, bool ended, const std::string& server = "") {
    int64_t run = 0;
    model::Session session = SessionOf(0, ++incarnation_);
    session.settings.destination_settings["wandb"]["base_url"] = server;
    EXPECT_OK(store_->SubmitAndWait([&](storage::Store& store) {
      const auto stream = store.Attach(session, AssignmentOf(run_id), 1);
      if (!stream.ok()) return stream.status();
      run = stream->run;
      model::Delivery delivery;
      delivery.run = run;
      delivery.kind = "wandb";
      EXPECT_OK(store.PutDelivery(delivery));
      if (!ended) return absl::OkStatus();
      EXPECT_OK(store.EndStream(stream->id, model::StreamState::kFinished, 0, "", 2));
      return store.CloseRun(run, model::RunState::kFinished, 0, "", 2);
    }));
    return run;
  }
  model::Delivery Stored(int64_t run) {
    const auto deliveries = Reader()->Deliveries(run);
    EXPECT_OK(deliveries);
    return deliveries->front();
  }

  testing::TempDir dir_;
  absl::Duration silence_ = absl::Seconds(10);
  std::function<void(const deliver::StepResult&)> on_step_;
  Tracker tracker_;
  uint64_t incarnation_ = 0;
  std::unique_ptr<StoreLoop> store_;
  std::unique_ptr<DeliverLoop> loop_;
};

TEST_F(DeliverLoopTest, StoresEachStepBeforeTheNext) {
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.wait = absl::ZeroDuration();
  }
  const int64_t run = AddRun("job", /*ended=*/true);
  Start();
  ASSERT_TRUE(WaitFor([&] { return Stored(run).complete; }));
  EXPECT_EQ(Stored(run).delivered_rows, 3u);
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().pending == 0; }));
  EXPECT_EQ(tracker_.StepsOf("job"), 3);
  absl::MutexLock lock(&tracker_.mutex);
  EXPECT_FALSE(tracker_.unsaved_step);
}

// A rank that waited for the delivery received the notice of the last step before that of an earlier
// one, and its last line had the earlier number of rows.
TEST_F(DeliverLoopTest, ReportsEachStepBeforeTheNext) {
  absl::Mutex mutex;
  std::vector<uint64_t> reported;
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.wait = absl::ZeroDuration();
  }
  on_step_ = [&](const deliver::StepResult& step) {
    {  // gives another worker the time for a step
      absl::MutexLock lock(&tracker_.mutex);
      const auto is_next = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tracker_.mutex) {
        return static_cast<uint64_t>(tracker_.steps["job"]) > step.delivery.delivered_rows;
      };
      EXPECT_FALSE(
          tracker_.mutex.AwaitWithTimeout(absl::Condition(&is_next), absl::Milliseconds(50)));
    }
    absl::MutexLock lock(&mutex);
    reported.push_back(step.delivery.delivered_rows);
  };
  AddRun("job", /*ended=*/true);
  Start();
  ASSERT_TRUE(WaitFor([&] {
    absl::MutexLock lock(&mutex);
    return reported.size() == 3;
  }));
  loop_->Stop();
  EXPECT_THAT(reported, ::testing::ElementsAre(1, 2, 3));
}

TEST_F(DeliverLoopTest, CountsWhatItDeliversByDestination) {
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.working = false;
    tracker_.wait = absl::Milliseconds(5);
  }
  const absl::Time before = absl::Now();
  AddRun("one", /*ended=*/true);
  AddRun("two", /*ended=*/true);
  Start();
  const auto counted = [&] { return loop_->counters().destinations["wandb"]; };
  ASSERT_TRUE(WaitFor([&] { return counted().errors >= 3; }));
  EXPECT_EQ(counted().last_error, "HTTP 500");
  EXPECT_GE(counted().last_error_time, before);
  EXPECT_EQ(counted().last_success, absl::InfinitePast());
  EXPECT_EQ(counted().delivered_rows, 0u);
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.working = true;
  }
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().pending == 0; }));
  EXPECT_EQ(counted().delivered_rows, 6u);
  EXPECT_EQ(counted().refused_rows, 0u);
  EXPECT_GE(counted().last_success, before);
  const auto& times = counted().exchange_time.counts;
  EXPECT_EQ(std::accumulate(times.begin(), times.end(), uint64_t{0}), loop_->counters().steps);
}

TEST_F(DeliverLoopTest, NewRunsAndRowsTriggerSteps) {
  Start();
  const int64_t run = AddRun("job", /*ended=*/false);
  loop_->AddRun(run);
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") == 1; }));
  loop_->NotifyRows(run);
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") == 2; }));
}

// For example, the user now permits the delivery that was refused before.
TEST_F(DeliverLoopTest, AddRunRetriesFailureImmediately) {
  const auto work = [&](bool works, bool held) {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.working = works;
    tracker_.held = held;
  };
  work(false, /*held=*/false);
  const int64_t run = AddRun("job", /*ended=*/true);
  Start(/*workers=*/3);
  ASSERT_TRUE(WaitFor([&] { return Stored(run).last_error == "HTTP 500"; }));
  loop_->AddRun(run);
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") == 2; }));

  // The same while a step is in progress.
  work(false, /*held=*/true);
  loop_->AddRun(run);
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") == 3; }));
  loop_->AddRun(run);
  const int64_t other = AddRun("other", /*ended=*/true);
  loop_->AddRun(other);  // the loop loads them in order
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("other") == 1; }));
  work(false, /*held=*/false);
  EXPECT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") == 4; }));
}

TEST_F(DeliverLoopTest, DrainDeliversAllWithoutWaiting) {
  const int64_t one = AddRun("one", /*ended=*/true);
  const int64_t two = AddRun("two", /*ended=*/true);
  Start();
  EXPECT_TRUE(loop_->Drain(absl::Seconds(30)));
  EXPECT_TRUE(Stored(one).complete);
  EXPECT_TRUE(Stored(two).complete);
  absl::MutexLock lock(&tracker_.mutex);
  EXPECT_TRUE(tracker_.saw_draining);
}

TEST_F(DeliverLoopTest, SetApartDeliveryWaitsForRetry) {
  const int64_t run = AddRun("apart", /*ended=*/true);
  AddRun("other", /*ended=*/true);
  model::Delivery delivery = Stored(run);
  delivery.crashes = model::Delivery::kSetApart;
  ASSERT_OK(
      store_->SubmitAndWait([&](storage::Store& store) { return store.SetCrashes(delivery); }));
  Start();
  EXPECT_FALSE(loop_->Drain(absl::Seconds(30))) << "all else is delivered";
  EXPECT_EQ(tracker_.StepsOf("other"), 3);
  EXPECT_EQ(tracker_.StepsOf("apart"), 0);
  EXPECT_EQ(loop_->counters().set_apart, 1u);
  loop_->NotifyRows(run);
  loop_->AddRun(run);  // as when another rank attaches

  ASSERT_OK(
      store_->SubmitAndWait([&](storage::Store& store) { return store.TryAgain(run, "wandb"); }));
  loop_->AddRun(run);
  EXPECT_TRUE(WaitFor([&] { return Stored(run).complete; }));
  EXPECT_EQ(loop_->counters().set_apart, 0u);
}

TEST_F(DeliverLoopTest, RemovedRunIsDropped) {
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.working = false;
    tracker_.wait = absl::Hours(1);
  }
  const int64_t failing = AddRun("failing", /*ended=*/true);
  const int64_t apart = AddRun("apart", /*ended=*/true);
  model::Delivery delivery = Stored(apart);
  delivery.crashes = model::Delivery::kSetApart;
  ASSERT_OK(
      store_->SubmitAndWait([&](storage::Store& store) { return store.SetCrashes(delivery); }));
  Start();
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().failing == 1; }));
  EXPECT_EQ(loop_->counters().set_apart, 1u);
  for (const int64_t run : {failing, apart}) {
    ASSERT_OK(store_->SubmitAndWait([&](storage::Store& store) {
      return store.RemoveRun(run, 3, storage::Removal::kWhateverWaits);
    }));
    loop_->OnRemoved(run);
  }
  EXPECT_TRUE(WaitFor([&] { return loop_->counters().pending == 0; }));
  EXPECT_EQ(loop_->counters().set_apart, 0u);
  EXPECT_EQ(tracker_.StepsOf("failing"), 1);
}

TEST_F(DeliverLoopTest, DrainGivesUpAtItsDeadline) {
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.working = false;
  }
  const int64_t run = AddRun("job", /*ended=*/true);
  Start();
  EXPECT_FALSE(loop_->Drain(absl::Milliseconds(50)));
  loop_->Stop();
  EXPECT_FALSE(Stored(run).complete);
  EXPECT_EQ(Stored(run).last_error, "HTTP 500");
  EXPECT_EQ(loop_->counters().failing, 1u);
}

TEST_F(DeliverLoopTest, ContinuedRunIsDeliveredAgain) {
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.wait = absl::ZeroDuration();
  }
  const int64_t run = AddRun("job", /*ended=*/true);
  Start();
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().pending == 0 && Stored(run).complete; }));
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.wait = absl::Hours(1);
  }
  EXPECT_OK(store_->SubmitAndWait([&](storage::Store& store) {
    return store.Attach(SessionOf(0, ++incarnation_), AssignmentOf("job"), 3).status();
  }));
  loop_->AddRun(run);
  ASSERT_TRUE(WaitFor([&] { return Stored(run).delivered_rows == 4; }));
  EXPECT_FALSE(Stored(run).complete);
  EXPECT_EQ(loop_->counters().pending, 1u);
}

// If a rank attached during a step, the loop once created its run's delivery again and again.
TEST_F(DeliverLoopTest, AttachDuringStepKeepsDelivery) {
  const auto hold = [&](bool held) {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.held = held;
    tracker_.wait = absl::ZeroDuration();
  };
  const int64_t run = AddRun("job", /*ended=*/true);
  const int64_t other = AddRun("other", /*ended=*/true);
  hold(true);
  Start(/*workers=*/6);
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") + tracker_.StepsOf("other") == 2; }));
  loop_->AddRun(run);
  loop_->AddRun(other);
  const int64_t last = AddRun("last", /*ended=*/true);
  loop_->AddRun(last);  // by the third worker, which has loaded the others before
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("last") == 1; }));
  hold(false);
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().pending == 0; }));
  EXPECT_TRUE(Stored(run).complete);
  absl::MutexLock lock(&tracker_.mutex);
  for (const char* const job : {"job", "other", "last"}) {
    EXPECT_EQ(tracker_.created[job], 1) << job;
    EXPECT_EQ(tracker_.steps[job], 3) << job;
  }
}

// A run was continued and ended again while the post with its first end was in flight. Its rows in
// between were never sent.
TEST_F(DeliverLoopTest, LateStepLeavesReopenedRunIncomplete) {
  const auto hold = [&](bool held) {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.held = held;
    tracker_.wait = absl::ZeroDuration();
  };
  hold(true);
  const int64_t run = AddRun("job", /*ended=*/true);
  EXPECT_OK(store_->SubmitAndWait([&](storage::Store& store) {
    model::Delivery delivery;
    delivery.run = run;
    delivery.kind = "wandb";
    delivery.delivered_rows = 2;
    return store.PutDelivery(delivery);
  }));
  Start();
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") == 1; }));
  EXPECT_OK(store_->SubmitAndWait([&](storage::Store& store) {
    const auto stream = store.Attach(SessionOf(0, ++incarnation_), AssignmentOf("job"), 3);
    EXPECT_OK(stream);
    EXPECT_OK(store.DefineRunShape(run, 1, testing::Keys(1)));
    EXPECT_OK(store.AppendRunRows(run, testing::Dense(0, 10, 1, 1)));
    EXPECT_OK(store.EndStream(stream->id, model::StreamState::kFinished, 0, "", 4));
    return store.CloseRun(run, model::RunState::kFinished, 0, "", 4);
  }));
  hold(false);
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("job") > 1; })) << "taken for complete";
  EXPECT_FALSE(Stored(run).complete);
}

TEST_F(DeliverLoopTest, HangingStepDelaysNoOtherRun) {
  AddRun("hangs", /*ended=*/true);
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.hanging = {"hangs"};
    tracker_.wait = absl::ZeroDuration();
  }
  std::vector<int64_t> others;
  for (int i = 0; i < 8; ++i) others.push_back(AddRun("job" + std::to_string(i), /*ended=*/true));
  Start(/*workers=*/3);
  for (int64_t run : others) ASSERT_TRUE(WaitFor([&] { return Stored(run).complete; })) << run;
  absl::MutexLock lock(&tracker_.mutex);
  EXPECT_EQ(tracker_.steps["hangs"], 1);
  tracker_.hanging.clear();
}

// A server that answered queries but never answered posts once held all workers. The runs of all
// other servers waited for minutes.
TEST_F(DeliverLoopTest, HangingServerLeavesOneWorkerFree) {
  std::set<std::string> hanging;
  for (int i = 0; i < 8; ++i) {
    hanging.insert("hangs" + std::to_string(i));
    AddRun("hangs" + std::to_string(i), /*ended=*/true, "http://hanging");
  }
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.hanging = hanging;
    tracker_.wait = absl::ZeroDuration();
  }
  const auto hanging_steps = [&] {
    int steps = 0;
    for (const std::string& run : hanging) steps += tracker_.StepsOf(run);
    return steps;
  };
  Start(/*workers=*/3);
  ASSERT_TRUE(WaitFor([&] { return hanging_steps() == 2; }));
  for (const char* job : {"one", "two"}) {
    const int64_t run = AddRun(job, /*ended=*/true, "http://working");
    loop_->AddRun(run);
    ASSERT_TRUE(WaitFor([&] { return Stored(run).complete; })) << job;
  }
  EXPECT_EQ(hanging_steps(), 2);
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.hanging.clear();
  }
  ASSERT_TRUE(WaitFor([&] { return loop_->counters().pending == 0; }));
}

// Only the requests in flight could report it, and they take minutes to fail.
TEST_F(DeliverLoopTest, WaitingRunsReportASilentServer) {
  silence_ = absl::Milliseconds(50);
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.hanging = {"hangs1", "hangs2"};
    tracker_.at_gate = {"at_gate"};
    tracker_.wait = absl::ZeroDuration();
  }
  std::vector<int64_t> waiting;
  for (const char* job : {"at_gate", "hangs1", "hangs2", "behind"}) {
    waiting.push_back(AddRun(job, /*ended=*/true, "http://silent"));
  }
  const int64_t idle = AddRun("idle", /*ended=*/false, "http://silent");  // has nothing to send
  const int64_t other = AddRun("other", /*ended=*/false, "http://working");
  Start(/*workers=*/3);
  for (int64_t run : waiting) {
    ASSERT_TRUE(WaitFor([&] {
      return absl::StartsWith(Stored(run).last_error, "no answer from the tracker since 20");
    })) << run;
  }
  EXPECT_EQ(loop_->counters().failing, 4u);
  EXPECT_EQ(Stored(idle).last_error, "");
  EXPECT_EQ(Stored(other).last_error, "");
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.hanging.clear();
  }
  // The reason is cleared for all runs, whether they are done or wait for something else.
  for (int64_t run : waiting) {
    ASSERT_TRUE(WaitFor([&] { return Stored(run).last_error.empty(); })) << run;
  }
  EXPECT_FALSE(Stored(waiting[0]).complete);
  {
    absl::MutexLock lock(&tracker_.mutex);
    EXPECT_FALSE(tracker_.unsaved_step);
    tracker_.at_gate.clear();
  }
  for (int64_t run : waiting) ASSERT_TRUE(WaitFor([&] { return Stored(run).complete; })) << run;
}

TEST_F(DeliverLoopTest, OpenBreakerKeepsSilenceReported) {
  silence_ = absl::Milliseconds(50);
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.hanging = {"hangs"};
    tracker_.at_gate = {"at_gate"};
  }
  AddRun("hangs", /*ended=*/true);
  const int64_t at_gate = AddRun("at_gate", /*ended=*/true);
  Start(/*workers=*/3);
  ASSERT_TRUE(WaitFor([&] { return !Stored(at_gate).last_error.empty(); }));
  const int steps = tracker_.StepsOf("at_gate");
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("at_gate") > steps + 3; }));
  EXPECT_NE(Stored(at_gate).last_error, "");
  EXPECT_EQ(loop_->counters().failing, 2u);
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.hanging.clear();
  }
  EXPECT_TRUE(WaitFor([&] { return Stored(at_gate).last_error.empty(); }));
}

TEST_F(DeliverLoopTest, BacklogsAreDeliveredOldestFirst) {
  for (const char* run : {"a", "b", "c"}) AddRun(run, /*ended=*/true);
  {
    absl::MutexLock lock(&tracker_.mutex);
    tracker_.wait = absl::ZeroDuration();
  }
  Start(/*workers=*/1);
  ASSERT_TRUE(WaitFor([&] { return tracker_.StepsOf("c") == 3; }));
  absl::MutexLock lock(&tracker_.mutex);
  EXPECT_THAT(tracker_.order, ::testing::ElementsAre("a", "a", "a", "b", "b", "b", "c", "c", "c"));
}

TEST_F(DeliverLoopTest, RetriesAFailedStoreRead) {
  AddRun("a", /*ended=*/true);
  absl::Time now = absl::UnixEpoch();
  testing::FaultyVfs vfs;
  auto reader = storage::StoreReader::Open(dir_.path(), vfs.name());
  ASSERT_OK(reader);
  DeliverLoop loop(store_.get(), OneWorker(*std::move(reader)),
                   DeliverLoop::Options{.steady_clock = [&now] { return now; }});
  vfs.FailReads(1, EIO);
  EXPECT_EQ(loop.Step(), absl::ZeroDuration());
  EXPECT_EQ(loop.Step(), absl::Seconds(1));
  EXPECT_EQ(tracker_.StepsOf("a"), 0);
  vfs.Heal();
  now += absl::Seconds(1);
  loop.Step();
  loop.Step();
  EXPECT_EQ(tracker_.StepsOf("a"), 1);
}

// Otherwise a step could reopen the run at the tracker, and the next daemon could find it complete.
TEST_F(DeliverLoopTest, FailedSaveIsOverwrittenBeforeTheNextStep) {
  AddRun("a", /*ended=*/true);
  store_.reset();
  testing::FaultyVfs vfs;
  auto store = storage::Store::Open(dir_.path(), {.vfs = vfs.name()});
  ASSERT_OK(store);
  StoreLoop store_loop(*std::move(store), {.threads = false});
  absl::Time now = absl::UnixEpoch();
  DeliverLoop loop(&store_loop, OneWorker(Reader()),
                   DeliverLoop::Options{.steady_clock = [&now] { return now; }});
  vfs.FailSyncs(1, EIO);
  loop.Step();
  loop.Step();
  ASSERT_EQ(tracker_.StepsOf("a"), 1);
  now += absl::Seconds(1);
  loop.Step();
  EXPECT_EQ(tracker_.StepsOf("a"), 1);
  vfs.Heal();
  now += absl::Seconds(1);
  loop.Step();
  EXPECT_EQ(tracker_.StepsOf("a"), 2);
  const absl::MutexLock lock(&tracker_.mutex);
  EXPECT_EQ(tracker_.created["a"], 2) << "the first one has rows that the store does not know of";
  EXPECT_FALSE(tracker_.unsaved_step);
}

TEST_F(DeliverLoopTest, CallerDrivesStepsWithItsClock) {
  const int64_t run = AddRun("a", /*ended=*/true);
  absl::Time now = absl::UnixEpoch();
  {
    const absl::MutexLock lock(&tracker_.mutex);
    tracker_.wait = absl::Seconds(10);
  }
  DeliverLoop loop(store_.get(), OneWorker(Reader()),
                   DeliverLoop::Options{.steady_clock = [&now] { return now; }});
  EXPECT_EQ(loop.Step(), absl::ZeroDuration());  // loads the deliveries
  EXPECT_EQ(loop.Step(), absl::ZeroDuration());
  EXPECT_EQ(loop.Step(), absl::Seconds(10));
  EXPECT_EQ(tracker_.StepsOf("a"), 1);
  now += absl::Seconds(10);
  loop.Step();
  now += absl::Seconds(10);
  loop.Step();
  EXPECT_EQ(tracker_.StepsOf("a"), 3);
  EXPECT_TRUE((*Reader()->Deliveries(run)).front().complete);
  EXPECT_EQ(loop.Step(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace ranklog::pipeline
