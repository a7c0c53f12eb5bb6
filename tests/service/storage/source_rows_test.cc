// Rows of a run that repeat rows of its streams.

#include "service/storage/rows/source_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "service/storage/database/store_file.h"
#include "service/storage/rows/batch_codec.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::Keys;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::HasSubstr;

// A stream with the rows 1 to 30 in three batches, in which each third row has only a text.
class SourceRowsTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    stream_ = NewStream();
    run_ = StoredStream(*reader_, stream_)->run;
    Do([&] {
      for (const uint64_t first : {1, 11, 21}) EXPECT_OK(store_->Append(stream_, Rows(first)));
      EXPECT_OK(store_->DefineRunShape(run_, 1, Keys(2)));
      EXPECT_OK(store_->DefineRunShape(run_, 2, Keys(4)));
    });
  }

  static model::Batch Rows(uint64_t first) {
    model::Batch batch{.first = first, .last = first + 9, .blocks = {}};
    model::Block numbers, texts;
    numbers.shape = 1;
    for (uint32_t row = 0; row < 10; ++row) {
      const bool text = (first + row) % 3 == 0;
      model::Block& block = text ? texts : numbers;
      block.offsets.push_back(row);
      block.steps.push_back(static_cast<int64_t>(first + row));
      block.times_us.push_back(static_cast<int64_t>(1000 * (first + row)));
      if (text) {
        const auto index = static_cast<uint32_t>(block.rows() - 1);
        block.texts.push_back({index, "note", absl::StrCat("row ", first + row)});
        block.texts.push_back({index, "seq", absl::StrCat(first + row), /*json=*/true});
      } else {
        block.values.insert(block.values.end(), {static_cast<double>(first + row), 0.5});
      }
    }
    batch.blocks = {numbers, texts};
    return batch;
  }

  // Rows of the run that repeat the rows `seqs` of the stream, all with or all without numbers, and
  // have `added` numbers more.
  static model::Batch Repeat(uint64_t first, const std::vector<uint64_t>& seqs, uint32_t added) {
    model::Batch batch{.first = first, .last = first + seqs.size() - 1, .blocks = {}};
    model::Block& block = batch.blocks.emplace_back();
    const bool texts = seqs.front() % 3 == 0;
    block.shape = texts ? 0 : 1 + added / 2;
    block.source = {.rank = 0, .incarnation = 7, .added = added, .seqs = seqs};
    for (uint32_t row = 0; row < seqs.size(); ++row) {
      block.offsets.push_back(row);
      block.steps.push_back(static_cast<int64_t>(seqs[row]));
      block.times_us.push_back(static_cast<int64_t>(1000 * seqs[row]));
      if (texts) {
        block.texts.push_back({row, "note", absl::StrCat("row ", seqs[row])});
        block.texts.push_back({row, "seq", absl::StrCat(seqs[row]), /*json=*/true});
      } else {
        block.values.insert(block.values.end(), {static_cast<double>(seqs[row]), 0.5});
      }
      for (uint32_t i = 0; i < added; ++i) block.values.push_back(100 * row + i);
    }
    return batch;
  }

  static model::Batch WithoutSources(model::Batch batch) {
    for (model::Block& block : batch.blocks) block.source = {};
    return batch;
  }

  void Damage(const std::string& sql) {
    reader_.reset();
    store_.reset();
    {
      ASSERT_OK_AND_ASSIGN(Database database, Database::Open(dir_.File(kStoreFile),
                                                             Database::Mode::kReadWrite, nullptr));
      ASSERT_OK(database.Execute(absl::StrCat("PRAGMA foreign_keys = OFF; ", sql).c_str()));
    }
    ASSERT_OK_AND_ASSIGN(reader_, StoreReader::Open(dir_.path()));
  }

  int64_t stream_ = 0;
  int64_t run_ = 0;
};

TEST_F(SourceRowsTest, RowsAreReadAsTheyWereAppended) {
  const model::Batch batches[] = {
      Repeat(0, {1, 2, 4, 5, 7, 8, 10, 11, 13}, 0),  // across two batches of the stream
      Repeat(9, {6, 9, 27}, 0),                      // texts, and a batch that is skipped
      Repeat(12, {20, 29}, 2), Repeat(14, {2}, 2),   // back, as after a rewind
  };
  Do([&] {
    for (const model::Batch& batch : batches) {
      ASSERT_OK(model::Validate(batch));
      EXPECT_OK(store_->AppendRunRows(run_, batch));
    }
  });
  ASSERT_OK_AND_ASSIGN(const auto stored, reader_->RunBatches(run_, 0, 1 << 20));
  ASSERT_EQ(stored.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(stored[i].batch, WithoutSources(batches[i])) << i;
}

TEST_F(SourceRowsTest, ReplaysRepeatRowsToo) {
  Do([&] { EXPECT_OK(store_->AppendReplays(run_, Repeat(0, {10, 11}, 0))); });
  ASSERT_OK_AND_ASSIGN(const auto stored, reader_->ReplayBatches(run_, 0, 1 << 20));
  EXPECT_EQ(stored.at(0).batch, WithoutSources(Repeat(0, {10, 11}, 0)));
}

// One batch has rows of each kind: with a source, and with values of their own.
TEST_F(SourceRowsTest, BatchMayMixRepeatedAndOtherRows) {
  model::Batch batch = Repeat(0, {1, 2}, 0);
  model::Block own = Dense(2, 1, 1, 2).blocks[0];
  own.offsets = {2};
  batch.blocks.push_back(own);
  batch.last = 2;
  Do([&] { EXPECT_OK(store_->AppendRunRows(run_, batch)); });
  EXPECT_EQ(reader_->RunBatches(run_, 0, 1)->at(0).batch, WithoutSources(batch));
}

TEST_F(SourceRowsTest, RepeatedRowsTakeTwoBytesEach) {
  std::vector<uint64_t> seqs;
  model::Batch batch{.first = 0, .last = 999, .blocks = {}};
  for (uint64_t seq = 1; seq <= 1000; ++seq) seqs.push_back(seq);
  batch.blocks = Dense(0, 1000, 1, 10).blocks;
  batch.blocks[0].source = {.rank = 0, .incarnation = ~uint64_t{0}, .added = 0, .seqs = seqs};
  std::string blob;
  EncodeBatch(batch, blob);
  EXPECT_LT(blob.size(), 2 * 1000 + 50);
  EXPECT_THAT(DecodeBatch(blob), StatusIs(absl::StatusCode::kDataLoss)) << "not in a stream";
}

TEST_F(SourceRowsTest, LimitCountsRepeatedValues) {
  Do([&] {
    EXPECT_OK(store_->AppendRunRows(run_, Repeat(0, {1, 2, 4, 5}, 0)));
    EXPECT_OK(store_->AppendRunRows(run_, Repeat(4, {7, 8}, 0)));
  });
  EXPECT_EQ(reader_->RunBatches(run_, 0, 100)->size(), 1u);
  EXPECT_EQ(reader_->RunBatches(run_, 0, 1000)->size(), 2u);
}

TEST_F(SourceRowsTest, DamagedOrMissingSourceIsDataLoss) {
  Do([&] {
    EXPECT_OK(store_->AppendRunRows(run_, Repeat(0, {1, 2}, 0)));
    EXPECT_OK(store_->AppendRunRows(run_, Repeat(2, {11, 13}, 0)));
    EXPECT_OK(store_->AppendRunRows(run_, Repeat(4, {22, 23}, 0)));
  });
  // The blob of another position, a blob that is cut, and no blob.
  Damage("UPDATE stream_batch SET data = substr(data, 1, length(data) - 1) WHERE last_seq = 20");
  EXPECT_OK(reader_->RunBatches(run_, 0, 1));
  EXPECT_THAT(reader_->RunBatches(run_, 2, 1),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("row 11 of rank 0")));
  Damage("DELETE FROM stream_batch WHERE last_seq = 20");
  EXPECT_THAT(reader_->RunBatches(run_, 2, 1),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("missing")));
  Damage(
      "UPDATE stream_batch SET data = (SELECT data FROM stream_batch WHERE last_seq = 10) "
      "WHERE last_seq = 30");
  EXPECT_THAT(reader_->RunBatches(run_, 4, 1), StatusIs(absl::StatusCode::kDataLoss));
  Damage("DELETE FROM stream");
  EXPECT_THAT(reader_->RunBatches(run_, 0, 1),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the stream is missing")));
}

// The rows have the numbers of the stream's rows, but the stream is another one.
TEST_F(SourceRowsTest, RowsOfAnotherStreamAreNotAccepted) {
  Do([&] { EXPECT_OK(store_->AppendRunRows(run_, Repeat(0, {1, 2}, 0))); });
  Damage("UPDATE stream SET rank = 5");
  EXPECT_THAT(reader_->RunBatches(run_, 0, 1), StatusIs(absl::StatusCode::kDataLoss));
  Damage("UPDATE stream SET rank = 0, is_primary = 1 - is_primary");
  EXPECT_THAT(reader_->RunBatches(run_, 0, 1), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace ranklog::storage
