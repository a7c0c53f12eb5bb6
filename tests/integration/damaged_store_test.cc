// The store is damaged while no daemon runs. The next daemon serves no wrong row, sets the file
// aside if it notices the damage, and continues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "service/storage/rows/damage.h"
#include "tests/integration/counting_job.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint64_t kRows = 20'000;
constexpr int kRuns = 3;

// Every run has the same rows: n at step n.
class DamagedStoreTest : public ::testing::Test {
 protected:
  // Fills a store with three runs, and keeps a copy of its files. With `log`, the daemon is killed,
  // so that its write-ahead log stays beside the file.
  void Fill(Node& node, const std::string& kept, bool log) {
    node.Start();
    for (int run = 0; run < kRuns; ++run) {
      const std::string job = absl::StrCat("job-", run);
      CountingJob counting(node, job, kRows);
      ASSERT_TRUE(counting.WaitForReturned(kRows));
      ASSERT_EQ(counting.Finish(), 0);
      ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded(job); }));
    }
    if (log) {
      node.Kill();
    } else {
      ASSERT_EQ(node.Terminate(), 0);
    }
    fs::create_directory(kept);
    for (const char* suffix : {"", "-wal"}) {
      if (fs::exists(Database(node) + suffix)) {
        fs::copy_file(Database(node) + suffix, kept + "/ranklog.db" + suffix);
      }
    }
  }

  static std::string Database(const Node& node) { return node.state_dir() + "/ranklog.db"; }

  static void Restore(const Node& node, const std::string& kept) {
    fs::remove_all(node.state_dir());
    fs::create_directory(node.state_dir());
    fs::permissions(node.state_dir(), fs::perms::owner_all);
    for (const fs::directory_entry& file : fs::directory_iterator(kept)) {
      fs::copy(file.path(), node.state_dir());
    }
  }

  // Checks that every row that the store at `dir` serves is as logged and in its place. Returns
  // their number.
  static uint64_t ExpectNoWrongRow(const std::string& dir) {
    uint64_t rows = 0;
    const auto reader = storage::StoreReader::Open(dir);
    if (!reader.ok()) return 0;
    const auto runs = (*reader)->Runs();
    if (!runs.ok()) return 0;
    for (const model::Run& run : *runs) {
      if (const auto streams = (*reader)->Streams(run.id); streams.ok()) {
        for (const model::Stream& stream : *streams) {
          rows += Read(
              1, [&](uint64_t at) { return (*reader)->StreamBatches(stream.id, at - 1, 4 << 20); });
        }
      }
      Read(0, [&](uint64_t at) { return (*reader)->RunBatches(run.id, at, 4 << 20); });
    }
    return rows;
  }

  template <typename Batches>
  static uint64_t Read(uint64_t first, Batches batches) {
    uint64_t rows = 0;
    uint64_t next = first;
    while (true) {
      const auto read = batches(next);
      if (!read.ok() || read->empty()) return rows;
      for (const storage::StoredBatch& stored : *read) {
        uint64_t wrong = 0;
        model::ForEachRow(stored.batch,
                          [&](const model::Block& block, size_t row, uint64_t position) {
                            const auto n = static_cast<int64_t>(position - first);
                            ++rows;
                            if (block.steps[row] != n || block.values[row * block.width()] != n) {
                              ++wrong;
                            }
                          });
        EXPECT_EQ(wrong, 0u) << "rows " << stored.batch.first << " to " << stored.batch.last;
        next = stored.batch.last + 1;
      }
    }
  }

  // Starts the daemon on the files. It runs, serves nothing wrong, and takes another run. Returns
  // how many stores it has set aside.
  static size_t ExpectItGoesOn(Node& node) {
    node.Start();
    ExpectNoWrongRow(node.state_dir());
    CountingJob counting(node, "after", 500);
    EXPECT_TRUE(counting.WaitForReturned(500));
    EXPECT_EQ(counting.Finish(), 0);
    EXPECT_TRUE(WaitFor([&] { return node.RunHasEnded("after"); }));
    EXPECT_EQ(node.GetRun("after").rows, 500u);
    ExpectNoWrongRow(node.state_dir());
    node.Kill();
    return storage::SetAsideStores(node.state_dir()).size();
  }

  TempDir dir_;
  const std::string kept_ = dir_.File("kept");
  Node node_;
};

TEST_F(DamagedStoreTest, FlippedBitsNeverYieldWrongRows) {  // S22
  ASSERT_NO_FATAL_FAILURE(Fill(node_, kept_, /*log=*/false));
  size_t set_aside = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Restore(node_, kept_);
    {
      std::mt19937_64 random(seed);
      std::fstream file(Database(node_), std::ios::in | std::ios::out | std::ios::binary);
      const auto size = static_cast<uint64_t>(fs::file_size(Database(node_)));
      // Every second seed damages only the tables of runs and streams, which are small compared
      // with the batches.
      const uint64_t among = seed % 2 == 0 ? size : 20 * 4096;
      for (uint32_t flip = 0; flip < seed; ++flip) {
        // The header names the program and the version that wrote the file. If it is damaged, the
        // file looks like one of another program.
        const auto at = static_cast<std::streamoff>(100 + random() % (among - 100));
        file.seekg(at);
        const auto byte = static_cast<char>(file.get() ^ (1 << random() % 8));
        file.seekp(at);
        file.put(byte);
      }
    }
    set_aside += ExpectItGoesOn(node_);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
  RecordProperty("set_aside", static_cast<int>(set_aside));
  printf("%zu of 20 damaged stores were set aside at the start\n", set_aside);
  EXPECT_GT(set_aside, 0u);
}

TEST_F(DamagedStoreTest, CutAnywhereIsSetAside) {
  ASSERT_NO_FATAL_FAILURE(Fill(node_, kept_, /*log=*/false));
  const uint64_t size = fs::file_size(kept_ + "/ranklog.db");
  for (const uint64_t left : {uint64_t{1}, uint64_t{700}, uint64_t{4096}, size / 2, size - 1}) {
    SCOPED_TRACE(absl::StrCat(left, " of ", size, " bytes left"));
    Restore(node_, kept_);
    fs::resize_file(Database(node_), left);
    EXPECT_EQ(ExpectItGoesOn(node_), 1u);
    const auto aside = storage::SetAsideStores(node_.state_dir());
    ASSERT_THAT(aside, SizeIs(1));
    EXPECT_EQ(fs::file_size(aside[0]), left) << "it was changed";
    EXPECT_THAT(node_.Log(), HasSubstr(aside[0]));
  }
}

TEST_F(DamagedStoreTest, NonDatabaseFileIsSetAside) {
  fs::create_directory(node_.state_dir());
  std::ofstream(Database(node_)) << std::string(100'000, 'g');
  EXPECT_EQ(ExpectItGoesOn(node_), 1u);
}

TEST_F(DamagedStoreTest, LogWithoutDatabaseIsSetAside) {
  ASSERT_NO_FATAL_FAILURE(Fill(node_, kept_, /*log=*/true));
  Restore(node_, kept_);
  fs::remove(Database(node_));
  EXPECT_EQ(ExpectItGoesOn(node_), 1u);
  const auto aside = storage::SetAsideStores(node_.state_dir());
  ASSERT_THAT(aside, SizeIs(1));
  EXPECT_EQ(fs::file_size(aside[0] + "-wal"), fs::file_size(kept_ + "/ranklog.db-wal"));
}

// Two stores of the same ranks: SQLite uses the log of the other file, which mixes pages of both.
TEST_F(DamagedStoreTest, LogOfAnotherFileIsRejected) {
  ASSERT_NO_FATAL_FAILURE(Fill(node_, kept_, /*log=*/false));
  Node other;
  const std::string others = dir_.File("others");
  ASSERT_NO_FATAL_FAILURE(Fill(other, others, /*log=*/true));
  ASSERT_TRUE(fs::exists(others + "/ranklog.db-wal"));
  Restore(node_, kept_);
  fs::copy_file(others + "/ranklog.db-wal", Database(node_) + "-wal");
  ExpectItGoesOn(node_);
}

}  // namespace
}  // namespace ranklog::testing
