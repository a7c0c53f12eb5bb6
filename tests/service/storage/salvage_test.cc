#include "service/storage/recovery/salvage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "service/storage/database/store_file.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

namespace fs = std::filesystem;
using ::ranklog::testing::Dense;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::SizeIs;

// A stream of 30 rows in three batches, with its store closed.
class SalvageTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    const int64_t stream = NewStream();
    Do([&] {
      for (uint64_t first = 1; first <= 21; first += 10) {
        EXPECT_OK(store_->Append(stream, Dense(first, 10, 1, 2)));
      }
      model::Item config;
      config.object = {{"lr", 0.5}};
      EXPECT_OK(testing::AppendItem(*store_, stream, config, 5));
      EXPECT_OK(store_->EndStream(stream, model::StreamState::kFinished, 0, "", 9));
    });
    reader_.reset();
    store_.reset();
    fs::create_directory(scratch_);
  }

  void Damage(const std::string& sql) {
    ASSERT_OK_AND_ASSIGN(Database database,
                         Database::Open(path_, Database::Mode::kReadWrite, nullptr));
    ASSERT_OK(database.Execute(sql.c_str()));
  }

  absl::StatusOr<Salvaged> Save() { return Salvage(path_, {scratch_, to_, nullptr, nullptr}); }

  std::vector<model::Stream> SavedStreams() {
    reader_ = *StoreReader::Open(to_);
    return *reader_->Streams(reader_->Runs()->front().id);
  }

  const std::string path_ = dir_.File(kStoreFile);
  const std::string scratch_ = dir_.File("scratch");
  const std::string to_ = dir_.File("to");
};

TEST_F(SalvageTest, HealthyStoreIsSavedCompletely) {
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Save());
  EXPECT_EQ(salvaged.saved_rows(), 30u);
  EXPECT_EQ(salvaged.lost_rows(), 0u);
  EXPECT_EQ(salvaged.damaged_records, 0u);
  const auto streams = SavedStreams();
  ASSERT_THAT(streams, SizeIs(1));
  EXPECT_EQ(streams[0].durable_seq, 30u);
  EXPECT_EQ(streams[0].losses.with_store, 0u);
  EXPECT_EQ(streams[0].state, model::StreamState::kFinished);
  const auto batches = BatchesOf(streams[0].id);
  ASSERT_THAT(batches, SizeIs(3));
  EXPECT_EQ(batches[2].blocks[0].values, Dense(21, 10, 1, 2).blocks[0].values);
  EXPECT_THAT(*reader_->Shapes(streams[0].id), SizeIs(2)) << "the one that rows have";
  EXPECT_THAT(*reader_->Items(streams[0].run, 0), SizeIs(1));
}

// Also the numbers without content of an import.
TEST_F(SalvageTest, ConsoleItemsAreNotLostOnes) {
  Reopen();
  const model::Stream stream = reader_->Streams(reader_->Runs()->front().id)->front();
  Do([&] {
    EXPECT_OK(store_->AppendItems(stream.id,
                                  {{.seq = 10, .count = 9, .kind = model::Item::Kind::kConsole}}));
  });
  reader_.reset();
  store_.reset();
  ASSERT_OK(Save());
  const auto streams = SavedStreams();
  ASSERT_THAT(streams, SizeIs(1));
  EXPECT_EQ(streams[0].durable_item, 10u);
  EXPECT_EQ(streams[0].console_items, 9u);
  EXPECT_EQ(streams[0].lost_items, 0u);
}

TEST_F(SalvageTest, KeepsProcessStartAndAttempt) {
  Reopen();
  Do([&] { Attach(1); });
  reader_.reset();
  store_.reset();
  Damage("UPDATE stream SET init_us = 777 + rank, attempt = 3 + rank");
  ASSERT_OK(Save());
  const auto streams = SavedStreams();
  ASSERT_THAT(streams, SizeIs(2));
  for (const model::Stream& stream : streams) {
    EXPECT_EQ(stream.init_us, 777 + stream.key.rank);
    EXPECT_EQ(stream.attempt, 3u + stream.key.rank);
  }
}

TEST_F(SalvageTest, CountsABatchInTheMiddle) {
  Damage("UPDATE stream_batch SET data = zeroblob(100) WHERE id = 2");
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Save());
  EXPECT_EQ(salvaged.saved_rows(), 20u);
  EXPECT_EQ(salvaged.lost_rows(), 10u);
  EXPECT_EQ(salvaged.damaged_records, 1u);
  const auto streams = SavedStreams();
  ASSERT_THAT(streams, SizeIs(1));
  EXPECT_EQ(streams[0].durable_seq, 30u);
  EXPECT_EQ(streams[0].losses.with_store, 10u);
  EXPECT_THAT(BatchesOf(streams[0].id), SizeIs(2));
}

TEST_F(SalvageTest, LostTailGetsItsOwnStream) {
  Damage("DELETE FROM stream_batch WHERE id = 3");
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Save());
  EXPECT_EQ(salvaged.lost_rows(), 10u);
  EXPECT_EQ(salvaged.damaged_records, 0u) << "it is not there";
  const auto streams = SavedStreams();
  ASSERT_THAT(streams, SizeIs(2));
  uint64_t rows = 0;
  uint64_t lost = 0;
  for (const model::Stream& stream : streams) {
    EXPECT_EQ(stream.state, model::StreamState::kFinished);
    rows += stream.durable_seq - stream.losses.with_store;
    lost += stream.losses.with_store;
  }
  EXPECT_EQ(rows, 20u);
  EXPECT_EQ(lost, 10u);
}

TEST_F(SalvageTest, OmitsRowsWithUnknownKeys) {
  Damage("UPDATE shape SET keys = x'00' WHERE shape = 1");
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Save());
  EXPECT_EQ(salvaged.saved_rows(), 0u);
  EXPECT_EQ(salvaged.lost_rows(), 30u);
  EXPECT_EQ(salvaged.damaged_records, 3u);
}

// Rows that an earlier store lost are not counted for this one.
TEST_F(SalvageTest, KeepsWhatWasLostBefore) {
  Damage("UPDATE stream SET lost_with_store = 10; DELETE FROM stream_batch WHERE id = 1");
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Save());
  EXPECT_EQ(salvaged.saved_rows(), 20u);
  EXPECT_EQ(salvaged.lost_rows(), 0u);
  EXPECT_EQ(SavedStreams().at(0).losses.with_store, 10u);
}

TEST_F(SalvageTest, RepairsHeaderInTheCopy) {
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file << std::string(24, 'x');
  file.close();
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Save());
  EXPECT_EQ(salvaged.saved_rows(), 30u);
  EXPECT_THAT(StoreReader::Open(dir_.path()), StatusIs(absl::StatusCode::kDataLoss)) << "as it was";
}

TEST_F(SalvageTest, WithoutDirectoryWritesNothing) {
  ASSERT_OK_AND_ASSIGN(const Salvaged salvaged, Salvage(path_, {scratch_, "", nullptr, nullptr}));
  EXPECT_EQ(salvaged.saved_rows(), 30u);
  EXPECT_FALSE(fs::exists(to_));
}

TEST_F(SalvageTest, ReportsItsProgress) {
  std::vector<std::string> said;
  const auto to = [&](const char* what) {
    return [&said, what](uint64_t done, uint64_t total) {
      if (done == total) said.push_back(absl::StrCat(what, " ", total));
    };
  };
  ASSERT_OK(Salvage(path_, {scratch_, to_, to("read"), to("saved")}));
  EXPECT_THAT(said, ElementsAre("read 5", "saved 30")) << "a stream, three batches, an update";
}

TEST_F(SalvageTest, RefusesExistingTargetAndMissingSource) {
  ASSERT_OK(Save());
  EXPECT_THAT(Save(), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Salvage(dir_.File("none"), {scratch_, "", nullptr, nullptr}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(SalvageTest, FindsNothingInGarbage) {
  std::ofstream(path_, std::ios::trunc) << std::string(100'000, 'g');
  EXPECT_THAT(Save(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_FALSE(fs::exists(to_)) << "nothing is begun";
}

}  // namespace
}  // namespace ranklog::storage
