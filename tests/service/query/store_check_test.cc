// What CheckStore() reports of a valid store, and of real files that were damaged.

#include "service/query/store_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "service/storage/database/sqlite.h"
#include "service/storage/database/store_file.h"
#include "service/storage/rows/batch_codec.h"
#include "tests/service/storage/store_fixture.h"
#include "tests/support/file_content.h"

namespace ranklog::query {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::Keys;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using storage::Database;
using storage::Parameter;

// A run of two ranks: 40 and 20 rows in batches of 10, and 40 rows of the run.
class StoreCheckTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] {
      for (const uint32_t rank : {0, 1}) {
        const model::Stream stream = Attach(rank);
        run_ = stream.run;
        streams_.push_back(stream.id);
        EXPECT_OK(store_->DefineShape(stream.id, 1, Keys(2)));
        const uint64_t rows = rank == 0 ? 40 : 20;
        for (uint64_t first = 1; first <= rows; first += 10) {
          EXPECT_OK(store_->Append(stream.id, Dense(first, 10, 1, 2)));
        }
        EXPECT_OK(store_->SetAggregated(stream.id, {.through = rows, .late = 0}));
      }
      EXPECT_OK(store_->DefineRunShape(run_, 1, Keys(2)));
      for (uint64_t first = 0; first < 40; first += 10) {
        EXPECT_OK(store_->AppendRunRows(run_, Dense(first, 10, 1, 2)));
      }
    });
  }

  // Changes the file without the store.
  void Damage(const std::function<void(Database&)>& change) {
    reader_.reset();
    store_.reset();
    {
      ASSERT_OK_AND_ASSIGN(Database database, Database::Open(dir_.File(storage::kStoreFile),
                                                             Database::Mode::kReadWrite, nullptr));
      change(database);
    }
    ASSERT_OK_AND_ASSIGN(reader_, storage::StoreReader::Open(dir_.path()));
  }
  static void FlipABit(Database& database, const std::string& table, int id) {
    std::string data;
    {
      storage::Query query = database.Select("SELECT data FROM " + table + " WHERE id = ?1", {id});
      ASSERT_TRUE(query.Next());
      data = std::string(query.Bytes(0));
    }
    data[data.size() / 2] ^= 0x10;
    EXPECT_OK(database.Run("UPDATE " + table + " SET data = ?2 WHERE id = ?1",
                           {id, Parameter::Blob(data)}));
  }

  StoreCheck Check() {
    uint64_t last = 0;
    uint64_t of = 0;
    const auto audit = storage::StoreAudit::Open(dir_.path()).value();
    auto check = CheckStore(*reader_, *audit, reader_->GetRun(run_).value(),
                            [&](uint64_t done, uint64_t total) {
                              EXPECT_GE(done, last);
                              last = done;
                              of = total;
                            });
    EXPECT_OK(check);
    EXPECT_EQ(last, of) << "the progress ends at its end";
    return check.value_or(StoreCheck());
  }

  int64_t run_ = 0;
  std::vector<int64_t> streams_;
};

TEST_F(StoreCheckTest, SoundStoreHasAllRowsIntact) {
  const StoreCheck check = Check();
  EXPECT_TRUE(check.ok());
  EXPECT_TRUE(check.file.empty());
  EXPECT_EQ(check.intact, 40u);
  ASSERT_THAT(check.ranks, SizeIs(2));
  EXPECT_EQ(check.ranks[0].intact, 40u);
  EXPECT_EQ(check.ranks[1].rows, 20u);
  EXPECT_EQ(check.ranks[1].intact, 20u);
  EXPECT_EQ(check.ranks[1].waiting, 0u);
}

TEST_F(StoreCheckTest, UnreadSpoolReportsPossiblyMissingRows) {
  Do([&] {
    EXPECT_OK(store_->EndStream(streams_[1], model::StreamState::kCrashed, 0,
                                absl::StrCat("rank 1 ended", model::kSpoolUnread), 1));
  });
  const StoreCheck check = Check();
  EXPECT_FALSE(check.ok());
  EXPECT_TRUE(check.ranks[0].findings.empty());
  EXPECT_THAT(check.ranks[1].findings.texts(), ElementsAre(HasSubstr("rows may be missing")));
}

TEST_F(StoreCheckTest, CountsLateLostAndWaitingRows) {
  Do([&] {
    EXPECT_OK(store_->Append(streams_[1], Dense(21, 5, 1, 2)));
    EXPECT_OK(store_->SetAggregated(streams_[1], {.through = 22, .late = 3}));
    EXPECT_OK(store_->SetLosses(streams_[1], {.ring_full = 7}));
  });
  const StoreCheck check = Check();
  EXPECT_TRUE(check.ok()) << "nothing of it is damage";
  EXPECT_EQ(check.ranks[1].waiting, 3u);
  EXPECT_EQ(check.ranks[1].late, 3u);
  EXPECT_EQ(check.ranks[1].losses.ring_full, 7u);
}

TEST_F(StoreCheckTest, FlippedBitCostsOnlyItsBatch) {
  Damage([](Database& database) { FlipABit(database, "stream_batch", 2); });
  const StoreCheck check = Check();
  EXPECT_FALSE(check.ok());
  EXPECT_EQ(check.ranks[0].intact, 30u) << "those before and after";
  EXPECT_THAT(check.ranks[0].findings.texts(),
              ElementsAre(HasSubstr("the batch of rows up to 20 is damaged")));
  EXPECT_TRUE(check.ranks[1].findings.empty());
  EXPECT_EQ(check.intact, 40u);
}

TEST_F(StoreCheckTest, FindsBitFlipInRunRows) {
  Damage([](Database& database) { FlipABit(database, "run_batch", 4); });
  const StoreCheck check = Check();
  EXPECT_FALSE(check.ok());
  EXPECT_EQ(check.intact, 30u);
  EXPECT_THAT(check.findings.texts(), ElementsAre(HasSubstr("up to 39 is damaged")));
}

TEST_F(StoreCheckTest, MissingBatchIsReportedAsGap) {
  Damage([](Database& database) {
    EXPECT_OK(database.Run("DELETE FROM stream_batch WHERE id IN (1, 3, 4)"));
  });
  const StoreCheck check = Check();
  EXPECT_FALSE(check.ok());
  EXPECT_EQ(check.ranks[0].intact, 10u);
  EXPECT_THAT(check.ranks[0].findings.texts(),
              ElementsAre("rows 1 to 10: missing", "rows 21 to 40: missing"));
}

TEST_F(StoreCheckTest, FindsDuplicateRows) {
  Damage([&](Database& database) {
    std::string data;
    storage::EncodeBatch(Dense(15, 16, 1, 2), data);
    ASSERT_OK(
        database.Run("UPDATE stream_batch SET data = ?1 WHERE id = 3", {Parameter::Blob(data)}));
  });
  const StoreCheck check = Check();
  EXPECT_FALSE(check.ok());
  EXPECT_EQ(check.ranks[0].intact, 40u);
  EXPECT_THAT(check.ranks[0].findings.texts(), ElementsAre("rows 15 to 20: there twice"));
}

TEST_F(StoreCheckTest, FindsNonIncreasingRunSteps) {
  Do([&] {
    model::Batch batch = Dense(40, 2, 1, 2);
    batch.blocks[0].steps = {39, 39};
    EXPECT_OK(store_->AppendRunRows(run_, batch));
  });
  const StoreCheck check = Check();
  EXPECT_FALSE(check.ok());
  EXPECT_THAT(check.findings.texts(), ElementsAre("it has 42 rows, but the ranks' rows make 40",
                                                  HasSubstr("row 40: its step")));
}

TEST_F(StoreCheckTest, FindsRowsWithoutKeys) {
  Damage([&](Database& database) {
    ASSERT_OK(database.Run("DELETE FROM shape WHERE stream = ?1", {streams_[1]}));
  });
  const StoreCheck check = Check();
  EXPECT_EQ(check.ranks[1].intact, 0u);
  EXPECT_THAT(check.ranks[1].findings.texts(), SizeIs(2));
}

// Damages each page in turn. Whatever the page held, the check ends and reports an error.
TEST_F(StoreCheckTest, DamageInAnyPageIsFound) {
  Do([&] { EXPECT_OK(store_->Append(streams_[0], Dense(41, 2000, 1, 2))); });
  reader_.reset();
  store_.reset();
  const std::string path = dir_.File(storage::kStoreFile);
  const std::string sound = testing::FileContent(path);
  ASSERT_GT(sound.size(), 20u * 4096);
  for (size_t page = 1; page * 4096 < sound.size(); ++page) {
    std::string damaged = sound;
    for (size_t i = 0; i < 4096; i += 7) damaged[page * 4096 + i] ^= 0x5a;
    std::ofstream(path, std::ios::binary) << damaged;
    const auto reader = storage::StoreReader::Open(dir_.path());
    if (!reader.ok()) continue;
    const absl::StatusOr<model::Run> run = (*reader)->GetRun(run_);
    if (!run.ok()) continue;
    const auto audit = storage::StoreAudit::Open(dir_.path());
    if (!audit.ok()) continue;
    const auto check = CheckStore(**reader, **audit, *run, [](uint64_t, uint64_t) {});
    EXPECT_FALSE(check.ok() && check->ok()) << "page " << page;
  }
}

}  // namespace
}  // namespace ranklog::query
