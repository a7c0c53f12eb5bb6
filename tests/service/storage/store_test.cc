// What the writer of the store promises, read back by a reader.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "service/storage/database/store_file.h"
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(StoreTest, ReadsBackAppendedRows) {
  const int64_t stream = NewStream();
  model::Batch batch = Dense(1, 3, 1, 2);
  batch.blocks[0].commits = true;
  batch.blocks[0].values[0] = -std::numeric_limits<double>::infinity();
  batch.blocks[0].texts = {{1, "note", "text"}};
  Do([&] { EXPECT_THAT(store_->Append(stream, batch), IsOkAndHolds(3)); });

  EXPECT_THAT(BatchesOf(stream), ElementsAre(batch));
  EXPECT_EQ(StoredStream(*reader_, stream)->durable_seq, 3);
  Reopen();
  EXPECT_THAT(BatchesOf(stream), ElementsAre(batch));
}

TEST_F(StoreTest, DropsTheRowsThatItHas) {
  const int64_t stream = NewStream();
  Do([&] {
    EXPECT_THAT(store_->Append(stream, Dense(1, 4, 1, 2)), IsOkAndHolds(4));
    EXPECT_THAT(store_->Append(stream, Dense(2, 2, 1, 2)), IsOkAndHolds(4));
    EXPECT_THAT(store_->Append(stream, Dense(3, 4, 1, 2)), IsOkAndHolds(6));
  });
  std::vector<double> firsts;
  for (const model::Batch& batch : BatchesOf(stream)) {
    model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t) {
      firsts.push_back(block.values[row * 2]);
    });
  }
  EXPECT_THAT(firsts, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(StoreTest, RefusesGapsAndWrongShapes) {
  const int64_t stream = NewStream();
  Do([&] {
    EXPECT_THAT(store_->Append(stream, Dense(2, 1, 1, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->Append(stream, Dense(1, 1, 3, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->Append(stream, Dense(1, 1, 1, 3)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->Append(stream + 1, Dense(1, 1, 1, 3)),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->Append(stream, Dense(1, 1, 1, 2)), IsOkAndHolds(1));
  });
  EXPECT_THAT(BatchesOf(stream), SizeIs(1));
}

TEST_F(StoreTest, StoreFilesArePrivate) {
  Do([&] { Attach(0); });
  for (const char* file : {"ranklog.db", "ranklog.db-wal", "ranklog.db-shm"}) {
    struct stat info = {};
    ASSERT_EQ(stat(dir_.File(file).c_str(), &info), 0) << file;
    EXPECT_EQ(info.st_mode & 0777, 0600) << file;
  }
}

TEST_F(StoreTest, FileInPathIsPermissionDenied) {
  std::ofstream(dir_.File("file")) << "x";
  EXPECT_THAT(Store::Open(dir_.File("file/state"), {}),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(StoreTest, RedefinedShapeNeedsSameKeys) {
  const int64_t stream = NewStream();
  Do([&] {
    EXPECT_OK(store_->DefineShape(stream, 1, Keys(2)));
    EXPECT_THAT(store_->DefineShape(stream, 1, Keys(3)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    const std::vector<std::string> others = {"a1", "a0"};
    EXPECT_THAT(store_->DefineShape(stream, 1, others),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->DefineShape(stream, 3, {}), StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->DefineShape(stream, 0, Keys(1)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->DefineShape(stream, kMaxShapeId + 1, Keys(1)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->DefineShape(stream + 1, 1, Keys(1)), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_OK(store_->DefineShape(stream, 5, Keys(1)));
  });
  EXPECT_THAT(reader_->Shapes(stream), IsOkAndHolds(ElementsAre(IsEmpty(), Keys(2), Keys(3),
                                                                IsEmpty(), IsEmpty(), Keys(1))));
}

TEST_F(StoreTest, StoresRowOf100000Metrics) {
  const int64_t stream = NewStream();
  constexpr size_t kWidth = 100'000;
  Do([&] {
    EXPECT_OK(store_->DefineShape(stream, 3, Keys(kWidth)));
    EXPECT_THAT(store_->Append(stream, Dense(1, 1, 3, kWidth)), IsOkAndHolds(1));
  });
  EXPECT_THAT(BatchesOf(stream), ElementsAre(Dense(1, 1, 3, kWidth)));
  EXPECT_THAT(reader_->Shapes(stream)->at(3), SizeIs(kWidth));
}

TEST_F(StoreTest, KeepsStreamProgressLossesAndEnd) {
  const int64_t stream = NewStream();
  model::Losses losses;
  uint64_t count = 0;
  for (const model::LossCounter& counter : model::kLossCounters) {
    if (counter.IsSetByRank()) losses.*counter.count = ++count;
  }
  Do([&] {
    EXPECT_OK(store_->SetProgress(stream, 20));
    EXPECT_OK(store_->SetProgress(stream, 10));
    EXPECT_OK(store_->SetLosses(stream, losses));
    EXPECT_OK(store_->SetAggregated(stream, {.through = 17, .late = 3}));
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kCrashed, 9, "killed", 2000));
  });
  ASSERT_OK_AND_ASSIGN(const model::Stream read, StoredStream(*reader_, stream));
  EXPECT_EQ(read.passed_step, 20) << "progress never goes back";
  EXPECT_EQ(read.losses, losses);
  EXPECT_EQ(read.aggregated_seq, 17);
  EXPECT_EQ(read.late_rows, 3);
  EXPECT_EQ(read.state, model::StreamState::kCrashed);
  EXPECT_EQ(read.exit_code, 9);
  EXPECT_EQ(read.reason, "killed");
  EXPECT_EQ(read.ended_us, 2000);
  EXPECT_EQ(reader_->GetRun(read.run)->late_rows, 3);
}

TEST_F(StoreTest, FinishedStreamStaysFinished) {
  const int64_t stream = NewStream();
  Do([&] {
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kCrashed, 0, "gone", 2000));
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 3, "", 3000));
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kCrashed, 0, "gone", 4000));
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 4, "", 5000));
    EXPECT_THAT(store_->EndStream(stream, model::StreamState::kLive, 0, "", 5000),
                StatusIs(absl::StatusCode::kInvalidArgument));
  });
  ASSERT_OK_AND_ASSIGN(const model::Stream read, StoredStream(*reader_, stream));
  EXPECT_EQ(read.state, model::StreamState::kFinished);
  EXPECT_EQ(read.exit_code, 3);
  EXPECT_EQ(read.ended_us, 3000);
}

TEST_F(StoreTest, AppendsARunsRowsInOrder) {
  const int64_t run = StoredStream(*reader_, NewStream())->run;
  Do([&] {
    EXPECT_THAT(store_->AppendRunRows(run, Dense(0, 1, 1, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "no shape";
    EXPECT_OK(store_->DefineRunShape(run, 1, Keys(2)));
    EXPECT_OK(store_->AppendRunRows(run, Dense(0, 3, 1, 2)));
    EXPECT_THAT(store_->AppendRunRows(run, Dense(2, 3, 1, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "again";
    EXPECT_THAT(store_->AppendRunRows(run, Dense(4, 3, 1, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "a gap";
    EXPECT_OK(store_->AppendRunRows(run, Dense(3, 2, 1, 2)));
    EXPECT_OK(store_->SetPosition(run, {.last_step = 4, .furthest_step = 4}));
  });
  ASSERT_OK_AND_ASSIGN(const model::Run read, reader_->GetRun(run));
  EXPECT_EQ(read.rows, 5);
  EXPECT_EQ(read.last_step, 4);
  EXPECT_THAT(reader_->RunShapes(run), IsOkAndHolds(ElementsAre(IsEmpty(), Keys(2))));
  Reopen();
  Do([&] { EXPECT_OK(store_->AppendRunRows(run, Dense(5, 1, 1, 2))); });
  EXPECT_EQ(reader_->GetRun(run)->rows, 6);
}

TEST_F(StoreTest, AddressChangesOnlyBeforeAnyDelivery) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  const auto address = [&] { return reader_->GetRun(run)->settings.Of("wandb", "base_url"); };
  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(why));
  };
  Do([&] {
    EXPECT_THAT(store_->SetDestination(run, "wandb", {{"base_url", "https://a"}}),
                refused("still running"));
  });
  Do([&] {
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 0, "", 4000));
    EXPECT_OK(store_->CloseRun(run, model::RunState::kFinished, 0, "", 5000));
    EXPECT_OK(store_->AddDelivery(run, "wandb"));
    EXPECT_OK(store_->AddDelivery(run, "local"));
    model::Delivery failed;
    failed.run = run;
    failed.kind = "wandb";
    failed.last_error = "of the former address";
    EXPECT_OK(store_->PutDelivery(failed));
    EXPECT_OK(store_->SetDestination(run, "wandb", {{"base_url", "https://a"}}));
    EXPECT_THAT(store_->SetDestination(9, "wandb", {{"base_url", "https://a"}}),
                StatusIs(absl::StatusCode::kNotFound));
  });
  EXPECT_EQ(address(), "https://a");
  ASSERT_OK_AND_ASSIGN(const std::vector<model::Delivery> deliveries, reader_->Deliveries(run));
  for (const model::Delivery& delivery : deliveries) EXPECT_EQ(delivery.last_error, "");
  model::Delivery created;
  created.run = run;
  created.kind = "wandb";
  created.cursor = {{"storage_id", "s1"}};  // the tracker has the run, but no row yet
  Do([&] {
    EXPECT_OK(store_->PutDelivery(created));
    EXPECT_THAT(store_->SetDestination(run, "wandb", {{"base_url", "https://b"}}),
                refused("wandb has a part"));
    EXPECT_THAT(store_->SetDestination(run, "wandb", {{"base_url", "https://b"}}),
                refused("without --base-url"));
    EXPECT_OK(store_->SetDestination(run, "wandb", {{"base_url", "https://a"}}))
        << "that is its address";
  });
  EXPECT_EQ(address(), "https://a");
  EXPECT_EQ(reader_->GetRun(run)->settings.group, "group") << "the other settings stay";
}

// Otherwise a job that is started again undoes the correction of its address.
TEST_F(StoreTest, ResumeKeepsAddressAfterDelivery) {
  model::Delivery delivery;
  delivery.kind = "wandb";
  const auto attach = [&](uint64_t incarnation, const char* base_url) {
    model::Session session = SessionOf(0, incarnation);
    session.settings.destination_settings["wandb"]["base_url"] = base_url;
    session.settings.notes = base_url;
    const absl::StatusOr<model::Stream> stream = store_->Attach(session, AssignmentOf("job"), 1);
    EXPECT_OK(stream);
    if (stream.ok()) delivery.run = stream->run;
  };
  const auto settings = [&] { return reader_->GetRun(delivery.run)->settings; };
  Do([&] { attach(1, "https://wrong"); });
  Do([&] {
    EXPECT_OK(store_->AddDelivery(delivery.run, "wandb"));
    attach(2, "https://right");
  });
  EXPECT_EQ(settings().Of("wandb", "base_url"), "https://right") << "no tracker has a part yet";
  delivery.cursor = {{"storage_id", "s1"}};
  Do([&] {
    EXPECT_OK(store_->PutDelivery(delivery));
    attach(3, "https://wrong");
  });
  EXPECT_EQ(settings().Of("wandb", "base_url"), "https://right");
  EXPECT_EQ(settings().notes, "https://wrong") << "the other settings are the newest";
}

TEST_F(StoreTest, ClosesARun) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  Do([&] {
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 2, "", 4000));
    EXPECT_THAT(store_->CloseRun(run, model::RunState::kRunning, 0, "", 1),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(store_->CloseRun(run + 1, model::RunState::kFailed, 0, "", 1),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_OK(store_->CloseRun(run, model::RunState::kFailed, 2, "why", 5000));
  });
  ASSERT_OK_AND_ASSIGN(const model::Run read, reader_->GetRun(run));
  EXPECT_EQ(read.state, model::RunState::kFailed);
  EXPECT_EQ(read.exit_code, 2);
  EXPECT_EQ(read.reason, "why");
  EXPECT_EQ(read.ended_us, 5000);
}

TEST_F(StoreTest, CloseRunNeedsEndedConsumedStreams) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  Do([&] {
    EXPECT_OK(store_->Append(stream, Dense(1, 5, 1, 2)));
    EXPECT_OK(store_->SetAggregated(stream, {.through = 5, .late = 0}));
    EXPECT_THAT(store_->CloseRun(run, model::RunState::kFailed, 0, "", 1),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "live";
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 0, "", 4000));
    EXPECT_OK(store_->SetAggregated(stream, {.through = 4, .late = 0}));
    EXPECT_THAT(store_->CloseRun(run, model::RunState::kFailed, 0, "", 1),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "a row is not used up";
    EXPECT_OK(store_->SetAggregated(stream, {.through = 5, .late = 0}));
    EXPECT_OK(store_->CloseRun(run, model::RunState::kFailed, 0, "", 1));
  });
}

TEST_F(StoreTest, KeepsItemsInTheirOrder) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  const model::Item config{.kind = model::Item::Kind::kConfig, .object = {{"lr", NAN}}};
  model::Item metric{.kind = model::Item::Kind::kMetric};
  metric.metric.name = "train/*";
  Do([&] {
    EXPECT_OK(testing::AppendItem(*store_, stream, config, 10));
    EXPECT_OK(testing::AppendItem(*store_, stream, metric, 12));
    EXPECT_THAT(store_->AppendItems(stream + 1, {}), StatusIs(absl::StatusCode::kNotFound));
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<model::StoredItem> updates, reader_->Items(run, 0));
  ASSERT_THAT(updates, SizeIs(2));
  EXPECT_EQ(updates[0].stream, stream);
  EXPECT_EQ(updates[0].item.time_us, 10);
  EXPECT_TRUE(std::isnan(updates[0].item.object["lr"].get<double>()));
  EXPECT_EQ(updates[1].item.metric, metric.metric);
  EXPECT_THAT(reader_->Items(run, updates[0].id), IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(reader_->Items(run, updates[1].id), IsOkAndHolds(IsEmpty()));
}

TEST_F(StoreTest, DropsResentItemsAndRefusesGaps) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  const auto config = [](uint64_t seq) {
    return model::Item{.seq = seq, .object = {{absl::StrCat("k", seq), seq}}};
  };
  Do([&] {
    EXPECT_THAT(store_->AppendItems(stream, {config(1), config(2)}), IsOkAndHolds(2));
    EXPECT_THAT(store_->AppendItems(stream, {config(2), config(3)}), IsOkAndHolds(3));
    EXPECT_THAT(store_->AppendItems(stream, {config(1)}), IsOkAndHolds(3));
    EXPECT_THAT(store_->AppendItems(stream, {config(5)}),
                StatusIs(absl::StatusCode::kInvalidArgument));
    model::Item early = config(4);
    early.after_row = 1;
    EXPECT_THAT(store_->AppendItems(stream, {early}), StatusIs(absl::StatusCode::kInvalidArgument))
        << "its row is not there";
  });
  ASSERT_OK_AND_ASSIGN(const auto items, reader_->Items(run, 0));
  uint64_t count = 0;
  for (const model::StoredItem& stored : items) count += stored.item.count;
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(StoredStream(*reader_, stream)->durable_item, 3u);
}

// Two ranks that set their values in turn, for days.
TEST_F(StoreTest, AlternatingItemsAreBoundedByTheirKeys) {
  int64_t run = 0, one = 0, two = 0;
  Do([&] {
    const model::Stream stream = Attach(0, 7);
    run = stream.run;
    one = stream.id;
    two = Attach(0, 8).id;
  });
  const auto append = [&](int64_t stream, const model::Json& object) {
    const model::Item item = {.kind = model::Item::Kind::kSummary, .object = object};
    Do([&] { EXPECT_OK(testing::AppendItem(*store_, stream, item)); });
  };
  append(one, {{"best", 0}, {"only", "first"}});
  for (int i = 1; i <= 50; ++i) {
    append(two, {{"best", -i}});
    append(one, {{"best", i}});
    append(two, {{"loss", -i}});
    append(one, {{"loss", i}});
  }
  ASSERT_OK_AND_ASSIGN(const auto items, reader_->Items(run, 0));
  EXPECT_THAT(items, SizeIs(::testing::Le(5u)));
  std::map<int64_t, model::Json> last;
  std::map<int64_t, uint64_t> calls;
  for (const model::StoredItem& stored : items) {
    calls[stored.stream] += stored.item.count;
    for (const auto& [key, value] : stored.item.object.items()) last[stored.stream][key] = value;
  }
  EXPECT_EQ(last[one], (model::Json{{"only", "first"}, {"best", 50}, {"loss", 50}}));
  EXPECT_EQ(last[two], (model::Json{{"best", -50}, {"loss", -50}}));
  EXPECT_EQ(calls[one], 101u);
  EXPECT_EQ(calls[two], 100u);
  EXPECT_EQ(items.back().item.object, (model::Json{{"loss", 50}}));
}

TEST_F(StoreTest, MergesConsecutiveSummariesUnderANewId) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  const auto summary = [](const char* key, int value, int64_t before_step) {
    return model::Item{
        .kind = model::Item::Kind::kSummary, .object = {{key, value}}, .before_step = before_step};
  };
  Do([&] { EXPECT_OK(testing::AppendItem(*store_, stream, summary("a", 1, 5))); });
  ASSERT_OK_AND_ASSIGN(const auto first, reader_->Items(run, 0));
  Do([&] {
    EXPECT_OK(testing::AppendItem(*store_, stream, summary("b", 2, 6)));
    EXPECT_OK(testing::AppendItem(*store_, stream, summary("b", 3, 7)));
  });
  ASSERT_OK_AND_ASSIGN(const auto items, reader_->Items(run, first.back().id));
  ASSERT_THAT(items, SizeIs(1)) << "a destination that has the first one reads the merged one";
  const model::Item& merged = items[0].item;
  EXPECT_EQ(merged.object, (model::Json{{"a", 1}, {"b", 3}}));
  EXPECT_EQ(merged.BeforeStepOf("a"), 5);
  EXPECT_EQ(merged.BeforeStepOf("b"), 7);
  EXPECT_EQ(merged.count, 3u);
  EXPECT_EQ(merged.seq, 3u);
  EXPECT_THAT(reader_->Items(run, 0), IsOkAndHolds(SizeIs(1)));
  Do([&] { EXPECT_OK(testing::AppendItem(*store_, stream, summary("b", 3, 7))); });
  EXPECT_THAT(reader_->Items(run, items[0].id), IsOkAndHolds(IsEmpty())) << "nothing changed";
  EXPECT_EQ(StoredStream(*reader_, stream)->durable_item, 4u);
}

TEST_F(StoreTest, MergedItemKeepsTheTimesOfItsCalls) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  const auto append = [&](const model::Json& object, int64_t called_us) {
    Do([&] {
      EXPECT_OK(testing::AppendItem(*store_, stream, {.object = object, .called_us = called_us}));
    });
  };
  append({{"a", 1}, {"b", 1}}, 10);
  append({{"b", 2}}, 20);
  append({{"b", 2}}, 30);  // changes only the time
  ASSERT_OK_AND_ASSIGN(const auto items, reader_->Items(run, 0));
  ASSERT_THAT(items, SizeIs(1));
  EXPECT_EQ(items[0].item.CalledAt("a"), 10);
  EXPECT_EQ(items[0].item.CalledAt("b"), 30);
}

// Else a value of the other stream would win or lose against one that came before or after it. But a
// value that its stream has set again is not kept.
TEST_F(StoreTest, DoesNotMergeAcrossAnotherStreamsItem) {
  const auto config = [](int value) { return model::Item{.object = {{"k", value}}}; };
  int64_t run = 0;
  Do([&] {
    const model::Stream one = Attach(0, 7), other = Attach(0, 8);
    run = one.run;
    EXPECT_OK(testing::AppendItem(*store_, one.id, config(1)));
    EXPECT_OK(testing::AppendItem(*store_, other.id, config(2)));
    EXPECT_OK(testing::AppendItem(*store_, one.id, config(3)));
  });
  ASSERT_OK_AND_ASSIGN(const auto items, reader_->Items(run, 0));
  ASSERT_THAT(items, SizeIs(2));
  EXPECT_EQ(items[0].item.object, (model::Json{{"k", 2}}));
  EXPECT_EQ(items[1].item.object, (model::Json{{"k", 3}}));
}

TEST_F(StoreTest, LargeConfigIsNotMerged) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  Do([&] {
    EXPECT_OK(
        testing::AppendItem(*store_, stream, {.object = {{"big", std::string(100'000, 'x')}}}));
    EXPECT_OK(testing::AppendItem(*store_, stream, {.object = {{"small", 1}}}));
    EXPECT_OK(testing::AppendItem(*store_, stream, {.object = {{"small", 2}}}));
  });
  EXPECT_THAT(reader_->Items(run, 0), IsOkAndHolds(SizeIs(2)));
}

TEST_F(StoreTest, UnreadableItemCountsAsLost) {
  const int64_t stream = NewStream();
  Do([&] {
    EXPECT_OK(testing::AppendItem(*store_, stream, {.kind = model::Item::Kind::kUnreadable}));
    EXPECT_OK(testing::AppendItem(*store_, stream, {.object = {{"lr", 1}}}));
  });
  EXPECT_EQ(StoredStream(*reader_, stream)->durable_item, 2u);
  EXPECT_EQ(StoredStream(*reader_, stream)->lost_items, 1u);
  EXPECT_OK(reader_->Check());
}

TEST_F(StoreTest, DeliveryIsCompleteOnlyWithAllItems) {
  const int64_t stream = NewStream();
  const int64_t run = StoredStream(*reader_, stream)->run;
  model::Delivery done;
  done.run = run;
  done.kind = "wandb";
  done.complete = true;
  Do([&] {
    EXPECT_OK(testing::AppendItem(*store_, stream, {.object = {{"lr", 1}}}));
    EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 0, "", 9));
    EXPECT_OK(store_->CloseRun(run, model::RunState::kFinished, 0, "", 9));
    EXPECT_OK(store_->PutDelivery(done));
  });
  const auto delivery = [&] { return reader_->Deliveries(run)->back(); };
  EXPECT_FALSE(delivery().complete);
  EXPECT_EQ(delivery().pending_items, 1u);
  const int64_t last = reader_->Items(run, 0)->back().id;
  EXPECT_EQ(reader_->GetRun(run)->last_item, last);
  done.delivered_items = last;
  Do([&] { EXPECT_OK(store_->PutDelivery(done)); });
  EXPECT_TRUE(delivery().complete);
  EXPECT_EQ(delivery().pending_items, 0u);
}

// Each process counts its steps from 0.
TEST_F(StoreTest, ItemsFollowAnEarlierProcesssRows) {
  model::Item summary;
  summary.kind = model::Item::Kind::kSummary;
  summary.object = {{"best", 1}};
  summary.before_step = 3;
  Do([&] {
    const model::Stream first = Attach(0, 7);
    EXPECT_OK(testing::AppendItem(*store_, first.id, summary, 10));
    EXPECT_OK(store_->SetPosition(first.run, {.last_step = 40, .furthest_step = 40}));
    EXPECT_OK(testing::AppendItem(*store_, Attach(0, 8).id, summary, 11))
        << "another ring of the same process";
    for (const uint64_t incarnation : {7, 8}) {
      EXPECT_OK(
          store_->EndStream(Attach(0, incarnation).id, model::StreamState::kCrashed, 0, "", 12));
    }
    EXPECT_OK(testing::AppendItem(*store_, Attach(0, 9).id, summary, 13));
    summary.before_step = 50;
    summary.object = {{"last", 2}};
    EXPECT_OK(testing::AppendItem(*store_, Attach(0, 9).id, summary, 14));
  });
  ASSERT_OK_AND_ASSIGN(const auto updates, reader_->Items(1, 0));
  std::vector<int64_t> steps;
  for (const model::StoredItem& stored : updates) {
    for (const char* key : {"best", "last"}) {
      if (stored.item.object.contains(key)) steps.push_back(stored.item.BeforeStepOf(key));
    }
  }
  EXPECT_THAT(steps, ElementsAre(3, 3, 41, 50));
}

// The ring of a forked child is found after its parent's end. Its summary came before rows that the
// parent logged later.
TEST_F(StoreTest, ItemsOfEndedProcesssOtherRingKeepTheirSteps) {
  model::Item summary;
  summary.kind = model::Item::Kind::kSummary;
  summary.object = {{"best", 1}};
  summary.before_step = 3;
  Do([&] {
    for (const uint64_t incarnation : {7, 8}) {
      model::Session session = SessionOf(0, incarnation);
      session.launch.process = "100@1";
      ASSERT_OK_AND_ASSIGN(const model::Stream stream,
                           store_->Attach(session, AssignmentOf("job", true), now_us_));
      EXPECT_OK(testing::AppendItem(*store_, stream.id, summary, 10));
      EXPECT_OK(store_->SetPosition(stream.run, {.last_step = 40, .furthest_step = 40}));
      EXPECT_OK(store_->EndStream(stream.id, model::StreamState::kFinished, 0, "", 12));
    }
  });
  ASSERT_OK_AND_ASSIGN(const auto updates, reader_->Items(1, 0));
  ASSERT_THAT(updates, SizeIs(2));
  EXPECT_EQ(updates[1].item.before_step, 3);
}

TEST_F(StoreTest, ChangingUnknownIdIsNotFound) {
  Do([&] {
    EXPECT_THAT(store_->SetProgress(9, 1), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->SetLosses(9, {}), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->SetAggregated(9, {.through = 1, .late = 1}),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->EndStream(9, model::StreamState::kFinished, 0, "", 1),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->SetPosition(9, {.last_step = 1, .furthest_step = 1}),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->AppendRunRows(9, Dense(0, 1, 1, 1)), StatusIs(absl::StatusCode::kNotFound));
    model::Delivery delivery;
    delivery.run = 9;
    EXPECT_THAT(store_->PutDelivery(delivery), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->AddDelivery(9, "wandb"), StatusIs(absl::StatusCode::kNotFound));
    model::DeadLetter letter;
    letter.run = 9;
    EXPECT_THAT(store_->AddDeadLetter(letter), StatusIs(absl::StatusCode::kNotFound));
  });
}

}  // namespace
}  // namespace ranklog::storage
