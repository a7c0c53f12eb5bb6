// What the writer of the store promises, read back by a reader.

#include "service/storage/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::Dense;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::Keys;
using ::ranklog::testing::SessionOf;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    reader_.reset();
    store_.reset();
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path(), {}));
    ASSERT_OK_AND_ASSIGN(reader_, StoreReader::Open(dir_.path()));
  }

  model::Stream Attach(uint32_t rank, uint64_t incarnation = 7, const std::string& run_id = "job") {
    auto stream =
        store_->Attach(SessionOf(rank, incarnation), AssignmentOf(run_id, rank == 0), now_us_);
    EXPECT_OK(stream);
    return stream.value_or(model::Stream());
  }

  // In a transaction of its own.
  template <typename Fn>
  void Do(Fn fn) {
    ASSERT_OK(store_->Begin());
    fn();
    ASSERT_OK(store_->Commit());
  }

  // A stream of rank 0 with shapes 1 (2 keys) and 2 (3 keys), committed.
  int64_t NewStream() {
    int64_t id = 0;
    Do([&] {
      id = Attach(0).id;
      EXPECT_OK(store_->DefineShape(id, 1, Keys(2)));
      EXPECT_OK(store_->DefineShape(id, 2, Keys(3)));
    });
    return id;
  }

  std::vector<model::Batch> BatchesOf(int64_t stream, uint64_t after = 0) {
    std::vector<model::Batch> batches;
    auto stored = reader_->StreamBatches(stream, after, 1 << 30);
    EXPECT_OK(stored);
    for (const StoredBatch& each : *stored) batches.push_back(each.batch);
    return batches;
  }

  TempDir dir_;
  int64_t now_us_ = 1000;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreReader> reader_;
};

TEST_F(StoreTest, GivesBackWhatWasAppended) {
  const int64_t stream = NewStream();
  model::Batch batch = Dense(1, 3, 1, 2);
  batch.blocks[0].commits = true;
  batch.blocks[0].values[0] = -std::numeric_limits<double>::infinity();
  batch.blocks[0].texts = {{1, "note", "text"}};
  Do([&] { EXPECT_THAT(store_->Append(stream, batch), IsOkAndHolds(3)); });

  EXPECT_THAT(BatchesOf(stream), ElementsAre(batch));
  EXPECT_EQ(reader_->GetStream(stream)->durable_seq, 3);
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

TEST_F(StoreTest, RefusesAGapAnUnknownShapeAndAWrongWidth) {
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

}  // namespace
}  // namespace ranklog::storage
