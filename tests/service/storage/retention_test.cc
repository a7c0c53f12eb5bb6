#include "service/storage/database/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "absl/strings/str_cat.h"
#include "service/storage/database/store_file.h"
#include "service/storage/recovery/salvage.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::Dense;
using ::ranklog::testing::IsOk;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::Keys;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kEnd = 5'000'000;

class RetentionTest : public ::ranklog::testing::StoreTest {
 protected:
  struct Made {
    int64_t run = 0;
    int64_t stream = 0;
  };

  // Makes a run of ten rows that has ended and is used up and delivered, in its own transaction.
  Made Delivered(const std::string& job, uint64_t incarnation = 7, int64_t ended_us = kEnd) {
    Made made;
    Do([&] {
      const auto stream = store_->Attach(SessionOf(0, incarnation, job), AssignmentOf(job), 1000);
      ASSERT_OK(stream);
      made = {stream->run, stream->id};
      Fill(made, 1, 10);
      End(made, ended_us);
      Deliver(made.run);
    });
    return made;
  }
  void Fill(const Made& made, uint64_t first, uint64_t rows) {
    ASSERT_OK(store_->DefineShape(made.stream, 1, Keys(2)));
    ASSERT_OK(store_->DefineRunShape(made.run, 1, Keys(2)));
    ASSERT_OK(store_->Append(made.stream, Dense(first, rows, 1, 2)).status());
    model::Batch batch = Dense(first - 1, rows, 1, 2);
    ASSERT_OK(store_->AppendRunRows(made.run, batch));
    ASSERT_OK(testing::AppendItem(
        *store_, made.stream,
        {.kind = model::Item::Kind::kSummary, .object = model::Json{{"loss", first}}}));
    ASSERT_OK(store_->SetAggregated(made.stream, {.through = first + rows - 1, .late = 0}));
  }
  void End(const Made& made, int64_t ended_us = kEnd) {
    ASSERT_OK(store_->EndStream(made.stream, model::StreamState::kFinished, 0, "", ended_us));
    ASSERT_OK(store_->CloseRun(made.run, model::RunState::kFinished, 0, "", ended_us));
  }
  void Deliver(int64_t run, bool complete = true, uint64_t rows = 10) {
    for (const char* kind : {"local", "wandb"}) {
      model::Delivery delivery;
      delivery.run = run;
      delivery.kind = kind;
      delivery.delivered_rows = rows;
      delivery.delivered_items = std::numeric_limits<int64_t>::max();
      delivery.complete = complete;
      delivery.cursor = model::Json::object();
      ASSERT_OK(store_->PutDelivery(delivery));
    }
  }

  // Returns the runs that may be removed, by the query for all runs and by the query for one.
  std::vector<int64_t> Removable(int64_t ended_by_us = kEnd) {
    std::vector<int64_t> ids;
    const auto runs = reader_->Removable(ended_by_us);
    EXPECT_OK(runs);
    for (const RemovableRun& run : *runs) ids.push_back(run.id);
    return ids;
  }
  // Checks that a removable run is not removable after `spoil`.
  void ExpectKept(const std::function<void(const Made&)>& spoil) {
    const Made made = Delivered("kept");
    EXPECT_THAT(Removable(), ElementsAre(made.run));
    Do([&] { spoil(made); });
    EXPECT_THAT(Removable(), IsEmpty());
    ASSERT_OK(store_->Begin());
    EXPECT_THAT(store_->RemoveRun(made.run, kEnd), StatusIs(absl::StatusCode::kFailedPrecondition));
    ASSERT_OK(store_->Commit());
    EXPECT_OK(reader_->GetRun(made.run));
  }
  void Remove(int64_t run) {
    Do([&] { EXPECT_OK(store_->RemoveRun(run, kEnd)); });
  }
  // Sweeps to the end. Returns the number of commits.
  int Sweep() {
    for (int slices = 0;; ++slices) {
      bool more = false;
      Do([&] {
        const auto swept = store_->SweepRemoved();
        ASSERT_OK(swept);
        more = swept->more;
      });
      if (!more) return slices;
    }
  }
  int64_t Count(const std::string& what) {
    auto database = Database::Open(absl::StrCat(dir_.path(), "/", kStoreFile),
                                   Database::Mode::kReadOnly, nullptr);
    return database->SelectInteger(absl::StrCat("SELECT count(*) FROM ", what)).value_or(-1);
  }
  int64_t Leavings() {
    return Count("stream_batch") + Count("run_batch") + Count("item") + Count("shape") +
           Count("run_shape");
  }
};

TEST_F(RetentionTest, OldestDeliveredRunGoesFirst) {
  const Made young = Delivered("young", 1, kEnd);
  const Made old = Delivered("old", 2, kEnd - 1);
  EXPECT_THAT(Removable(), ElementsAre(old.run, young.run));
  EXPECT_THAT(Removable(kEnd - 1), ElementsAre(old.run));
}

TEST_F(RetentionTest, ARunningRunStays) {
  ExpectKept([&](const Made& made) {
    const auto stream = store_->Attach(SessionOf(0, 8, "kept"), AssignmentOf("kept"), 1000);
    ASSERT_OK(stream);
    // Only the run itself records that it continues.
    ASSERT_OK(store_->EndStream(stream->id, model::StreamState::kFinished, 0, "", kEnd));
    Deliver(made.run);
  });
}

// The store itself prevents this case: a run with a live stream is running.
TEST_F(RetentionTest, RunWithLiveStreamStays) {
  Delivered("kept");
  auto database = Database::Open(dir_.File(kStoreFile), Database::Mode::kReadWrite, nullptr);
  ASSERT_OK(database);
  ASSERT_OK(database->Execute("UPDATE stream SET state = 0"));
  EXPECT_THAT(Removable(), IsEmpty());
}

TEST_F(RetentionTest, RunWithUnusedRowsStays) {
  ExpectKept([&](const Made& made) {
    ASSERT_OK(store_->Append(made.stream, Dense(11, 1, 1, 2)).status());
  });
}

TEST_F(RetentionTest, AnUndeliveredRunStays) {
  ExpectKept([&](const Made& made) { Deliver(made.run, /*complete=*/false); });
}

TEST_F(RetentionTest, RunWithPendingDestinationStays) {
  ExpectKept([&](const Made& made) { ASSERT_OK(store_->AddDelivery(made.run, "another")); });
}

TEST_F(RetentionTest, LocalOnlyRunStays) {
  Do([&] {
    const auto stream = store_->Attach(SessionOf(0), AssignmentOf("job"), 1000);
    const Made made{stream->run, stream->id};
    Fill(made, 1, 10);
    End(made);
    model::Delivery local;
    local.run = made.run;
    local.kind = "local";
    local.complete = true;
    local.cursor = model::Json::object();
    ASSERT_OK(store_->PutDelivery(local));
  });
  EXPECT_THAT(Removable(), IsEmpty());
}

TEST_F(RetentionTest, ARunWithoutAnyDestinationStays) {
  Do([&] {
    const auto stream = store_->Attach(SessionOf(0), AssignmentOf("job"), 1000);
    End({stream->run, stream->id});
  });
  EXPECT_THAT(Removable(), IsEmpty());
}

// Few trackers get such a part. One that has it all has another copy.
TEST_F(RetentionTest, PartOfOtherNodesRunStaysUnlessATrackerHasIt) {
  int64_t run = 0;
  Do([&] {
    RunAssignment part = AssignmentOf("job");
    part.local_only = true;
    const auto stream = store_->Attach(SessionOf(0), part, 1000);
    run = stream->run;
    End({stream->run, stream->id});
    model::Delivery delivery;
    delivery.run = run;
    delivery.kind = "local";
    delivery.complete = true;
    ASSERT_OK(store_->PutDelivery(delivery));
  });
  EXPECT_THAT(Removable(), IsEmpty());
  Do([&] { Deliver(run); });
  EXPECT_THAT(Removable(), ElementsAre(run));
}

TEST_F(RetentionTest, RunWithUndeliveredItemStays) {
  const Made made = Delivered("kept");
  Do([&] {
    model::Delivery delivery = reader_->Deliveries(made.run)->back();
    delivery.delivered_items = 0;
    ASSERT_OK(store_->PutDelivery(delivery));
  });
  EXPECT_THAT(Removable(), IsEmpty());
}

TEST_F(RetentionTest, RunWithDeadLetterStays) {
  ExpectKept([&](const Made& made) {
    ASSERT_OK(store_->AddDeadLetter({0, made.run, "wandb", 3, kEnd, "HTTP 400", "{}"}));
  });
}

TEST_F(RetentionTest, RunWithLateRowStays) {
  ExpectKept([&](const Made& made) {
    ASSERT_OK(store_->SetAggregated(made.stream, {.through = 10, .late = 1}));
  });
}

// The part of another node's run: it stays until the daemon of rank 0's node has its rows.
TEST_F(RetentionTest, RunThatWaitsForRankZerosNodeStays) {
  const Made made = Delivered("part");
  const auto may_go = [&](uint64_t seq, model::Joined joined, Removal removal) {
    EXPECT_OK(store_->Begin());
    EXPECT_OK(store_->SetJoined(made.stream, seq, joined, /*late_rows=*/0));
    const absl::Status removed = store_->RemoveRun(made.run, kEnd, removal);
    store_->Rollback();
    return removed.ok();
  };
  for (const Removal removal : {Removal::kDelivered, Removal::kNothingWaits}) {
    EXPECT_TRUE(may_go(10, model::Joined::kOpen, removal));
    EXPECT_TRUE(may_go(9, model::Joined::kLate, removal)) << "they will not be taken";
    EXPECT_FALSE(may_go(9, model::Joined::kOpen, removal));
  }
  EXPECT_TRUE(may_go(9, model::Joined::kOpen, Removal::kWhateverWaits));
}

// `ranklog rm` asks for it, without and with --force.
TEST_F(RetentionTest, UserMayRemoveEndedRun) {
  const Made made = Delivered("job");
  const auto remove = [&](Removal removal) {
    EXPECT_OK(store_->Begin());
    const absl::Status removed = store_->RemoveRun(made.run, kEnd, removal);
    EXPECT_OK(store_->Commit());
    return removed;
  };
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition);
  Do([&] {
    ASSERT_OK(store_->AddDeadLetter({0, made.run, "wandb", 3, kEnd, "HTTP 400", "{}"}));
    ASSERT_OK(store_->SetAggregated(made.stream, {.through = 10, .late = 1}));
    ASSERT_OK(store_->AddDelivery(made.run, "another"));
  });
  EXPECT_THAT(remove(Removal::kDelivered), refused);
  EXPECT_THAT(remove(Removal::kNothingWaits), refused);
  Do([&] { ASSERT_OK(store_->Append(made.stream, Dense(11, 1, 1, 2)).status()); });
  EXPECT_THAT(remove(Removal::kWhateverWaits), refused) << "a row is not used";
  Do([&] { ASSERT_OK(store_->SetAggregated(made.stream, {.through = 11, .late = 1})); });
  EXPECT_THAT(remove(Removal::kWhateverWaits), IsOk());
  EXPECT_THAT(remove(Removal::kWhateverWaits), refused) << "it is not there";
  EXPECT_OK(reader_->Check()) << "though its dead letter is still in the file";
  Sweep();
  EXPECT_EQ(Leavings() + Count("dead_letter"), 0);
}

TEST_F(RetentionTest, RemovedRunDisappearsImmediately) {
  const Made gone = Delivered("gone", 1);
  const Made stays = Delivered("stays", 2);
  Remove(gone.run);
  ASSERT_THAT(*reader_->Runs(), SizeIs(1));
  EXPECT_EQ(reader_->Runs()->front().id, stays.run);
  EXPECT_THAT(reader_->GetRun(gone.run), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(*reader_->Streams(gone.run), IsEmpty());
  EXPECT_THAT(*reader_->Deliveries(gone.run), IsEmpty());
  // A reader of a run that is being removed gets kNotFound, not a report of damage or an early end.
  EXPECT_THAT(reader_->RunBatches(gone.run, 0, 1 << 20), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(reader_->StreamBatches(gone.stream, 5, 1 << 20),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(reader_->Shapes(gone.stream), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Count("job"), 1);
  EXPECT_OK(reader_->Check()) << "though what it held is still in the file";
  EXPECT_GT(Leavings(), 5);
  EXPECT_THAT(BatchesOf(stays.stream), SizeIs(1));
}

// The tracker still has the run, unless the user asks to forget it.
TEST_F(RetentionTest, RemovedRunsIdStaysReserved) {
  const auto id_of = [this](const std::string& job, uint64_t incarnation) {
    model::Stream stream;
    Do([&] {
      auto attached = store_->Attach(SessionOf(0, incarnation, job), AssignmentOf("gone"), 1000);
      ASSERT_OK(attached);
      stream = *attached;
    });
    return stream.run_id;
  };
  Remove(Delivered("gone", 1).run);
  EXPECT_EQ(id_of("other", 2), "gone-2");
  EXPECT_EQ(id_of("gone", 3), "gone") << "its own job goes on";
  Do([&] {
    const model::Stream stream =
        *store_->Attach(SessionOf(0, 4, "forgotten"), AssignmentOf("forgotten"), 1000);
    End({stream.run, stream.id});
    ASSERT_OK(store_->RemoveRun(stream.run, kEnd, Removal::kWhateverWaits));
  });
  model::Stream stream;
  Do([&] { stream = *store_->Attach(SessionOf(0, 5, "third"), AssignmentOf("forgotten"), 1000); });
  EXPECT_EQ(stream.run_id, "forgotten");
}

TEST_F(RetentionTest, JobGoesWithItsLastRun) {
  const Made first = Delivered("job", 1);
  Made last;
  Do([&] {
    const auto other = store_->Attach(SessionOf(1, 2, "job"), AssignmentOf("other"), 1000);
    ASSERT_OK(other);
    last = {other->run, other->id};
    End(last);
    Deliver(last.run);
  });
  Remove(first.run);
  EXPECT_EQ(Count("job"), 1);
  EXPECT_THAT(*reader_->Runs(), SizeIs(1));
  Remove(last.run);
  EXPECT_EQ(Count("job"), 0);
  EXPECT_THAT(*reader_->Runs(), IsEmpty());
}

TEST_F(RetentionTest, SweepFreesOnlyTheRemovedRun) {
  const Made gone = Delivered("gone", 1);
  const int64_t of_one = Leavings();
  const Made stays = Delivered("stays", 2);
  Remove(gone.run);
  Sweep();
  EXPECT_EQ(Leavings(), of_one);
  EXPECT_OK(reader_->Check());
  EXPECT_THAT(BatchesOf(stays.stream), SizeIs(1));
  EXPECT_THAT(*reader_->RunBatches(stays.run, 0, 1 << 20), SizeIs(1));
  EXPECT_THAT(*reader_->Items(stays.run, 0), SizeIs(1));
  EXPECT_EQ(Sweep(), 0) << "nothing is left to be swept";
}

TEST_F(RetentionTest, LargeRunIsSweptInSlices) {
  constexpr int kBatches = 1500;
  Made made;
  Do([&] {
    const auto stream = store_->Attach(SessionOf(0), AssignmentOf("job"), 1000);
    made = {stream->run, stream->id};
    for (int i = 0; i < kBatches; ++i) Fill(made, 1 + static_cast<uint64_t>(i) * 4, 4);
    End(made);
    Deliver(made.run, /*complete=*/true, /*rows=*/uint64_t{kBatches} * 4);
  });
  Remove(made.run);
  int slices = 0;
  for (int64_t left = Leavings(); left > 0; ++slices) {
    ASSERT_LT(slices, 100);
    Do([&] { EXPECT_THAT(store_->SweepRemoved(), IsOk()); });
    const int64_t now = Leavings();
    EXPECT_LE(left - now, 512) << "records in one commit";
    EXPECT_LT(now, left);
    left = now;
    Reopen();  // the daemon is killed after each commit
    EXPECT_OK(reader_->Check());
    EXPECT_THAT(*reader_->Runs(), IsEmpty());
  }
  EXPECT_GE(slices, 2 * kBatches / 512);
  Sweep();
  EXPECT_EQ(Count("removed_run WHERE emptied = 0"), 0);
}

TEST_F(RetentionTest, SweepSliceHasBoundedBytes) {
  Made made;
  Do([&] {
    const auto stream = store_->Attach(SessionOf(0), AssignmentOf("job"), 1000);
    made = {stream->run, stream->id};
    ASSERT_OK(store_->DefineShape(made.stream, 1, Keys(64)));
    for (uint64_t i = 0; i < 8; ++i) {
      ASSERT_OK(store_->Append(made.stream, Dense(1 + i * 2048, 2048, 1, 64)).status());
    }
    ASSERT_OK(store_->SetAggregated(made.stream, {.through = 8 * 2048, .late = 0}));
    End(made);
    Deliver(made.run);
  });
  Remove(made.run);
  Do([&] {
    const auto swept = store_->SweepRemoved();
    ASSERT_OK(swept);
    EXPECT_EQ(swept->records, 2) << "of 1 MiB each";
    EXPECT_TRUE(swept->more);
  });
}

TEST_F(RetentionTest, SweptPagesAreReused) {
  int64_t after_first = 0;
  for (uint64_t i = 1; i <= 5; ++i) {
    Do([&] {
      const std::string job = absl::StrCat("job-", i);
      const auto stream = store_->Attach(SessionOf(0, i, job), AssignmentOf(job), 1000);
      const Made made{stream->run, stream->id};
      for (uint64_t n = 0; n < 100; ++n) Fill(made, 1 + n * 100, 100);
      End(made);
      Deliver(made.run, /*complete=*/true, /*rows=*/10'000);
    });
    for (const int64_t run : Removable()) Remove(run);
    Sweep();
    ASSERT_OK(store_->Checkpoint());
    const int64_t bytes = *reader_->FileBytes();
    if (i == 1) after_first = bytes;
    EXPECT_LE(bytes, after_first * 11 / 10) << i;
    EXPECT_LT(*reader_->UsedBytes(), 220'000) << i;  // an empty store has 201 kB
  }
}

TEST_F(RetentionTest, RemovedIdIsNotReused) {
  const Made gone = Delivered("gone", 1);
  Remove(gone.run);
  const Made next = Delivered("gone", 2);
  EXPECT_GT(next.run, gone.run);
  EXPECT_GT(next.stream, gone.stream);
  Sweep();
  EXPECT_THAT(BatchesOf(next.stream), SizeIs(1));
}

TEST_F(RetentionTest, ResumedRunStartsEmpty) {
  const Made gone = Delivered("job", 1);
  Remove(gone.run);
  Do([&] {
    const auto stream = store_->Attach(SessionOf(0, 2, "job"), AssignmentOf("job"), 2000);
    ASSERT_OK(stream);
    EXPECT_EQ(stream->durable_seq, 0u);
    EXPECT_EQ(stream->losses.with_store, 0u);
  });
  const auto runs = reader_->Runs();
  ASSERT_THAT(*runs, SizeIs(1));
  EXPECT_EQ(runs->front().rows, 0u);
  EXPECT_EQ(runs->front().last_step, -1);
  Sweep();
  EXPECT_OK(reader_->Check());
}

TEST_F(RetentionTest, ReturningRingsRowsAreNotDuplicated) {
  const Made gone = Delivered("job", 1);
  Remove(gone.run);
  Sweep();
  EXPECT_THAT(reader_->RemovedThrough(SessionOf(0, 1, "job").stream), IsOkAndHolds(10u));
  EXPECT_THAT(reader_->RemovedThrough(SessionOf(1, 1, "job").stream),
              StatusIs(absl::StatusCode::kNotFound));
  int64_t again = 0;
  Do([&] {
    const auto stream = store_->Attach(SessionOf(0, 1, "job"), AssignmentOf("job"), 2000);
    ASSERT_OK(stream);
    again = stream->id;
    EXPECT_EQ(stream->durable_seq, 10u);
    ASSERT_OK(store_->DefineShape(stream->id, 1, Keys(2)));
    EXPECT_THAT(store_->Append(stream->id, Dense(8, 5, 1, 2)), IsOkAndHolds(12u));
  });
  const auto batches = BatchesOf(again, 10);
  ASSERT_THAT(batches, SizeIs(1));
  EXPECT_EQ(batches[0].first, 11u);
  EXPECT_OK(reader_->Check());
}

TEST_F(RetentionTest, SalvageIgnoresRemovedRun) {
  const Made gone = Delivered("gone", 1);
  Delivered("stays", 2);
  Remove(gone.run);
  ASSERT_GT(Count("stream_batch"), 1) << "it is not swept yet";
  ::ranklog::testing::TempDir scratch;
  ASSERT_OK_AND_ASSIGN(
      const Salvaged found,
      Salvage(dir_.File(kStoreFile),
              {.scratch = scratch.path(), .to = "", .reading = nullptr, .saving = nullptr}));
  EXPECT_EQ(found.damaged_records, 0u);
  ASSERT_THAT(found.streams, SizeIs(1));
  EXPECT_EQ(found.streams[0].run_id, "stays");
  EXPECT_EQ(found.saved_rows(), 10u);
}

TEST_F(RetentionTest, ARollbackBringsTheRunBack) {
  const Made made = Delivered("job", 1);
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->RemoveRun(made.run, kEnd));
  store_->Rollback();
  EXPECT_THAT(BatchesOf(made.stream), SizeIs(1));
  Do([&] { EXPECT_THAT(store_->Append(made.stream, Dense(11, 1, 1, 2)), IsOkAndHolds(11u)); });
}

TEST(MustGoTest, RunGoesByAgeOrSize) {
  const absl::Time end = absl::FromUnixSeconds(1'000'000);
  const RemovableRun run{1, absl::ToUnixMicros(end), 10};
  const KeepLimits limits{.keep_for = absl::Hours(1), .keep_bytes = 1000};
  EXPECT_FALSE(MustGo(run, 1000, limits, end + absl::Minutes(59)));
  EXPECT_TRUE(MustGo(run, 1000, limits, end + absl::Minutes(60)));
  EXPECT_TRUE(MustGo(run, 1001, limits, end + kLeastAge));
  EXPECT_FALSE(MustGo(run, 1001, limits, end - absl::Hours(24))) << "the clock was set back";
}

TEST(MustGoTest, RunStaysUntilLeastAge) {
  const absl::Time end = absl::FromUnixSeconds(1'000'000);
  const RemovableRun run{1, absl::ToUnixMicros(end), 10};
  const KeepLimits none{.keep_for = absl::ZeroDuration(), .keep_bytes = 0};
  EXPECT_FALSE(MustGo(run, 1000, none, end + kLeastAge - absl::Microseconds(1)));
  EXPECT_TRUE(MustGo(run, 1000, none, end + kLeastAge));
}

TEST(MustGoTest, WithoutLimitsNothingGoes) {
  const RemovableRun run{1, 0, 10};
  const KeepLimits limits{.keep_for = absl::InfiniteDuration(),
                          .keep_bytes = KeepLimits::kUnlimited};
  EXPECT_FALSE(MustGo(run, int64_t{1} << 60, limits, absl::FromUnixSeconds(4'000'000'000)));
}

TEST(MustGoTest, DefaultsAreWeekAndFourGibibytes) {
  EXPECT_EQ(KeepLimits().keep_for, absl::Hours(168));
  EXPECT_EQ(KeepLimits().keep_bytes, 4294967296);
}

}  // namespace
}  // namespace ranklog::storage
