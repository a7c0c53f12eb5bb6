// What a reader finds, and how it pages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::Dense;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::Keys;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreReaderTest : public StoreTest {
 protected:
  template <typename T>
  static std::vector<int64_t> IdsOf(const absl::StatusOr<std::vector<T>>& found) {
    EXPECT_OK(found);
    std::vector<int64_t> ids;
    for (const T& each : *found) ids.push_back(each.id);
    return ids;
  }
};

TEST_F(StoreReaderTest, FindsNothingInAnEmptyStore) {
  EXPECT_THAT(reader_->Runs(), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(reader_->LiveStreams(), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(reader_->GetRun(1), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(reader_->StreamBatches(1, 0, 1), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(reader_->Shapes(1), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(StoreReaderTest, QueueHasUndeliveredRows) {
  EXPECT_THAT(reader_->Queues(), IsOkAndHolds(IsEmpty()));
  const int64_t run = StoredStream(*reader_, NewStream())->run;
  constexpr uint64_t kBatches = 200;  // more than the reader measures
  Do([&] {
    for (const char* kind : {"wandb", "local"}) EXPECT_OK(store_->AddDelivery(run, kind));
    EXPECT_OK(store_->DefineRunShape(run, 1, Keys(2)));
    for (uint64_t i = 0; i < kBatches; ++i) {
      EXPECT_OK(store_->AppendRunRows(run, Dense(i * 10, 10, 1, 2)));
    }
  });
  auto queues = reader_->Queues();
  ASSERT_OK(queues);
  ASSERT_THAT(*queues, SizeIs(1));  // "local" has no queue
  EXPECT_EQ(queues->front().kind, "wandb");
  EXPECT_EQ(queues->front().rows, 10 * kBatches);
  EXPECT_EQ(queues->front().oldest_us, 1'700'000'000'000'000);
  const uint64_t all = queues->front().bytes;
  EXPECT_GT(all, 10 * kBatches * 2 * sizeof(double));
  EXPECT_LT(all, 10 * kBatches * 2 * sizeof(double) * 2);

  // In the middle of a batch, the next row is the oldest.
  Do([&] {
    model::Delivery delivery;
    delivery.run = run;
    delivery.kind = "wandb";
    delivery.delivered_rows = 10 * kBatches - 15;
    EXPECT_OK(store_->PutDelivery(delivery));
  });
  queues = reader_->Queues();
  ASSERT_OK(queues);
  EXPECT_EQ(queues->front().rows, 15u);
  EXPECT_EQ(queues->front().oldest_us, 1'700'000'000'005'000);
  EXPECT_NEAR(queues->front().bytes, all * 15 / 2000, all / 500);
}

TEST_F(StoreReaderTest, LossesAreSummedOverAllStreams) {
  Do([&] {
    for (const uint32_t rank : {0, 1}) {
      EXPECT_OK(store_->SetLosses(Attach(rank).id, {.ring_full = 2, .too_large = rank}));
    }
  });
  const auto losses = reader_->LossesOfAll();
  ASSERT_OK(losses);
  EXPECT_EQ(*losses, (model::Losses{.ring_full = 4, .too_large = 1}));
}

TEST_F(StoreReaderTest, PagesByPositionAndBytes) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  Do([&] {
    EXPECT_OK(store_->DefineRunShape(run, 1, Keys(2)));
    for (uint64_t i = 0; i < 5; ++i) {
      EXPECT_OK(store_->Append(stream, Dense(1 + i * 100, 100, 1, 2)));
      EXPECT_OK(store_->AppendRunRows(run, Dense(i * 100, 100, 1, 2)));
    }
  });
  EXPECT_THAT(reader_->StreamBatches(stream, 0, 1), IsOkAndHolds(SizeIs(1))) << "at least one";
  EXPECT_THAT(reader_->StreamBatches(stream, 0, 4500), IsOkAndHolds(SizeIs(2)));
  EXPECT_THAT(reader_->StreamBatches(stream, 250, 1 << 20), IsOkAndHolds(SizeIs(3)));
  EXPECT_EQ(reader_->StreamBatches(stream, 250, 1)->at(0).batch.first, 201);
  EXPECT_EQ(reader_->StreamBatches(stream, 300, 1)->at(0).batch.first, 301);
  EXPECT_THAT(reader_->StreamBatches(stream, 500, 1), IsOkAndHolds(IsEmpty()));

  EXPECT_THAT(reader_->RunBatches(run, 0, 4500), IsOkAndHolds(SizeIs(2)));
  EXPECT_EQ(reader_->RunBatches(run, 199, 1)->at(0).batch, Dense(100, 100, 1, 2));
  EXPECT_EQ(reader_->RunBatches(run, 200, 1)->at(0).batch, Dense(200, 100, 1, 2));
  EXPECT_EQ(reader_->RunBatches(run, 200, 1)->at(0).owner, run);
  EXPECT_THAT(reader_->RunBatches(run, 500, 1), IsOkAndHolds(IsEmpty()));
}

TEST_F(StoreReaderTest, ListsRunsAndStreamsInOrder) {
  Do([&] {
    model::Session thread = SessionOf(1, 20);
    thread.identity.thread = 1;
    EXPECT_EQ(store_->Attach(thread, AssignmentOf("a", false), 1)->id, 1);
    EXPECT_EQ(store_->Attach(SessionOf(1, 21), AssignmentOf("a", false), 9)->id, 2);
    EXPECT_EQ(store_->Attach(SessionOf(1, 22), AssignmentOf("a", false), 8)->id, 3);
    EXPECT_EQ(store_->Attach(SessionOf(0, 23), AssignmentOf("a"), 9)->id, 4);
    EXPECT_EQ(store_->Attach(SessionOf(2, 24), AssignmentOf("b"), 9)->id, 5);
  });
  EXPECT_THAT(IdsOf(reader_->Runs()), ElementsAre(2, 1));
  EXPECT_THAT(IdsOf(reader_->Streams(1)), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(IdsOf(reader_->LiveStreams()), ElementsAre(1, 2, 3, 4, 5));
  Do([&] {
    for (int64_t stream : {1, 2, 3, 4}) {
      EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 0, "", 10));
    }
    EXPECT_OK(store_->CloseRun(1, model::RunState::kFinished, 0, "", 10));
  });
  EXPECT_THAT(IdsOf(reader_->LiveStreams()), ElementsAre(5));
}

TEST_F(StoreReaderTest, UpdatesStreams) {
  const int64_t first = NewStream();
  const int64_t run = StoredStream(*reader_, first)->run;
  std::vector<model::Stream> streams;
  EXPECT_OK(reader_->UpdateStreams(run, &streams));
  ASSERT_THAT(streams, SizeIs(1));
  Do([&] {
    EXPECT_OK(store_->DefineShape(first, 1, Keys(2)));
    EXPECT_OK(store_->Append(first, Dense(1, 10, 1, 2)));
    EXPECT_OK(store_->SetProgress(first, 12));
  });
  EXPECT_OK(reader_->UpdateStreams(run, &streams));
  EXPECT_EQ(streams[0].durable_seq, 10u);
  EXPECT_EQ(streams[0].passed_step, 12);
  Do([&] { EXPECT_OK(store_->EndStream(first, model::StreamState::kCrashed, 9, "killed", 1)); });
  EXPECT_OK(reader_->UpdateStreams(run, &streams));
  EXPECT_EQ(streams[0].state, model::StreamState::kCrashed);
  EXPECT_EQ(streams[0].reason, "killed");
}

TEST_F(StoreReaderTest, GivesDeliveriesAsTheyWerePut) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  model::Delivery delivery;
  delivery.run = run;
  delivery.kind = "wandb";
  delivery.delivered_rows = 1;
  delivery.last_error = "503";
  Do([&] {
    EXPECT_OK(store_->PutDelivery(delivery));
    delivery.delivered_rows = 2;
    delivery.refused_rows = 1;
    delivery.cursor = {{"offset", 17}};
    EXPECT_OK(store_->PutDelivery(delivery));
  });
  ASSERT_OK_AND_ASSIGN(const auto pending, reader_->PendingDeliveries());
  ASSERT_THAT(pending, SizeIs(1));
  EXPECT_EQ(pending[0].run, run);
  EXPECT_EQ(pending[0].kind, "wandb");
  EXPECT_EQ(pending[0].delivered_rows, 2);
  EXPECT_EQ(pending[0].refused_rows, 1);
  EXPECT_EQ(pending[0].last_error, "503");
  EXPECT_EQ(pending[0].cursor, delivery.cursor);
  delivery.complete = true;
  Do([&] {
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 0, "", 2000));
    EXPECT_OK(store_->CloseRun(run, model::RunState::kFinished, 0, "", 2000));
    EXPECT_OK(store_->PutDelivery(delivery));
  });
  EXPECT_THAT(reader_->PendingDeliveries(), IsOkAndHolds(IsEmpty()));
  EXPECT_TRUE(reader_->Deliveries(run)->at(0).complete);
}

TEST_F(StoreReaderTest, RepeatedAddKeepsTheDelivery) {
  const int64_t run = StoredStream(*reader_, NewStream())->run;
  Do([&] { EXPECT_OK(store_->AddDelivery(run, "wandb")); });
  ASSERT_OK_AND_ASSIGN(const auto added, reader_->PendingDeliveries());
  ASSERT_THAT(added, SizeIs(1));
  EXPECT_EQ(added[0].delivered_rows, 0);
  EXPECT_EQ(added[0].cursor, model::Json::object());

  model::Delivery delivery = added[0];
  delivery.delivered_rows = 2;
  delivery.cursor = {{"offset", 17}};
  Do([&] {
    EXPECT_OK(store_->PutDelivery(delivery));
    EXPECT_OK(store_->AddDelivery(run, "wandb"));
  });
  ASSERT_OK_AND_ASSIGN(const auto again, reader_->PendingDeliveries());
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].delivered_rows, 2);
  EXPECT_EQ(again[0].cursor, delivery.cursor);
}

TEST_F(StoreReaderTest, LocalDeliveryCountsEveryRow) {
  const int64_t run = StoredStream(*reader_, NewStream())->run;
  model::Delivery delivery;
  delivery.run = run;
  delivery.kind = "local";
  Do([&] {
    EXPECT_OK(store_->PutDelivery(delivery));
    EXPECT_OK(store_->DefineRunShape(run, 1, Keys(1)));
    EXPECT_OK(store_->AppendRunRows(run, Dense(0, 12, 1, 1)));
  });
  EXPECT_EQ(reader_->Deliveries(run)->at(0).delivered_rows, 12);
}

TEST_F(StoreReaderTest, GivesDeadLettersOldestFirst) {
  const int64_t run = StoredStream(*reader_, NewStream())->run;
  Do([&] {
    model::DeadLetter letter;
    letter.run = run;
    letter.kind = "wandb";
    letter.row = 7;
    letter.time_us = 99;
    letter.answer = "400 bad key";
    letter.content = std::string("{\0}", 3);
    EXPECT_OK(store_->AddDeadLetter(letter));
    letter.row = 8;
    EXPECT_OK(store_->AddDeadLetter(letter));
  });
  ASSERT_OK_AND_ASSIGN(const auto letters, reader_->DeadLetters(run));
  ASSERT_THAT(letters, SizeIs(2));
  EXPECT_EQ(letters[0].row, 7);
  EXPECT_EQ(letters[0].kind, "wandb");
  EXPECT_EQ(letters[0].time_us, 99);
  EXPECT_EQ(letters[0].answer, "400 bad key");
  EXPECT_EQ(letters[0].content, std::string("{\0}", 3));
  EXPECT_EQ(letters[1].row, 8);
}

TEST_F(StoreReaderTest, ListsTenThousandRuns) {
  Do([&] {
    for (int i = 0; i < 10'000; ++i) {
      const std::string id = absl::StrCat("job", i);
      ASSERT_OK(
          store_->Attach(SessionOf(0, static_cast<uint64_t>(i) + 1, id), AssignmentOf(id), 1));
    }
  });
  ASSERT_OK_AND_ASSIGN(const auto runs, reader_->Runs());
  EXPECT_THAT(runs, SizeIs(10'000));
  EXPECT_EQ(runs[0].id, 10'000);
}

TEST_F(StoreReaderTest, MeasuresTheFileAndItsLog) {
  const int64_t stream = NewStream();
  ASSERT_OK_AND_ASSIGN(const int64_t before, reader_->FileBytes());
  Do([&] { EXPECT_OK(store_->Append(stream, Dense(1, 10'000, 1, 2))); });
  EXPECT_GT(*reader_->FileBytes(), before + 160'000);
}

TEST_F(StoreReaderTest, SeesALongLogShortened) {
  const int64_t stream = NewStream();
  for (uint64_t row = 1; row <= 5; ++row) {
    model::Batch batch = Dense(row, 1, 0, 0);
    batch.blocks[0].texts = {{0, "text", std::string(17'000'000, 'x')}};
    Do([&] { EXPECT_OK(store_->Append(stream, batch)); });
  }
  const int64_t before = *reader_->FileBytes();
  ASSERT_OK(store_->Checkpoint());
  EXPECT_LT(*reader_->FileBytes(), before + (8 << 20)) << "the log is gone, the file has grown";
  EXPECT_EQ(BatchesOf(stream).size(), 5);
}

}  // namespace
}  // namespace ranklog::storage
