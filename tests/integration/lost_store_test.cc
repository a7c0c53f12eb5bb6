// The state directory is removed while a rank logs, with or without the daemon. The rank continues
// in the next store, and the rows lost with the old store are counted.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "service/storage/directories/state_lock.h"
#include "tests/integration/counting_job.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

class LostStoreTest : public ::testing::Test {
 protected:
  void LoseTheStore() {
    node_.Kill();
    std::filesystem::remove_all(node_.state_dir());
  }

  // Like rm -rf, but between two checks of the daemon.
  void RemoveStoreAtOnce() {
    std::filesystem::rename(node_.state_dir(), node_.state_dir() + ".gone");
    std::filesystem::remove_all(node_.state_dir() + ".gone");
  }

  // Checks that the store has the rows from some number to the last, each once and in order, and
  // counts the earlier ones as lost.
  void ExpectTheRestAndTheGap() {
    const model::Stream stream = counting_.Stream();
    EXPECT_GE(stream.durable_seq, counting_.returned());
    EXPECT_LE(stream.durable_seq, counting_.returned() + 1);
    EXPECT_GT(stream.losses.with_store, 0u);
    uint64_t last = stream.losses.with_store;
    const auto reader = node_.Reader();
    while (last < stream.durable_seq) {
      const auto batches = reader->StreamBatches(stream.id, last, 4 << 20);
      ASSERT_TRUE(batches.ok() && !batches->empty()) << "after row " << last;
      for (const storage::StoredBatch& stored : *batches) {
        model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t seq) {
          ASSERT_EQ(seq, ++last);
          ASSERT_EQ(block.values[row], static_cast<double>(seq - 1));
        });
      }
    }
    const uint64_t kept = stream.durable_seq - stream.losses.with_store;
    EXPECT_EQ(node_.GetRun("job").rows, kept);
    const Finished runs =
        RunToEnd({RANKLOG_CLI, "runs", "--json", "--state-dir", node_.state_dir()});
    const auto json = nlohmann::json::parse(runs.output, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(json.is_discarded()) << runs.output;
    EXPECT_EQ(json[0]["ranks"][0]["rows"], kept);
    EXPECT_GE(json[0]["ranks"][0]["lost"], stream.losses.with_store);
  }

  Node node_;
  CountingJob counting_{node_, "job", /*rows=*/0, {{"RANKLOG_SPOOL_BYTES", "1048576"}}};
};

TEST_F(LostStoreTest, LiveRankContinuesAndCountsGap) {
  node_.Start();
  ASSERT_TRUE(counting_.WaitForReturned(50'000));
  LoseTheStore();
  node_.Start();
  // More than the ring holds, so the new daemon must have taken some.
  ASSERT_TRUE(counting_.WaitForReturned(counting_.returned() + 50'000));
  EXPECT_EQ(counting_.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
  ExpectTheRestAndTheGap();
  EXPECT_THAT(node_.daemon().Output(), HasSubstr("rows were lost with an earlier store"));
}

// A backup, or a store saved by `ranklog recover`. The rank has already freed rows that this store
// lacks.
TEST_F(LostStoreTest, LiveRankContinuesInOlderStore) {
  node_.Start();
  ASSERT_TRUE(counting_.WaitForReturned(20'000));
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("ingest.rows") > 0; }));
  EXPECT_EQ(node_.Terminate(), 0);
  const std::string older = node_.state_dir() + ".older";
  std::filesystem::copy(node_.state_dir(), older, std::filesystem::copy_options::recursive);
  node_.Start();
  ASSERT_TRUE(counting_.WaitForReturned(counting_.returned() + 50'000));
  LoseTheStore();
  std::filesystem::rename(older, node_.state_dir());
  node_.Start();
  ASSERT_TRUE(counting_.WaitForReturned(counting_.returned() + 50'000));
  EXPECT_EQ(counting_.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
  const model::Stream stream = counting_.Stream();
  EXPECT_EQ(stream.durable_seq, counting_.returned());
  EXPECT_GT(stream.losses.with_store, 0u);
  EXPECT_EQ(node_.GetRun("job").rows, stream.durable_seq - stream.losses.with_store);
}

// SQLite alone would continue to write to files without a name.
TEST_F(LostStoreTest, DaemonReplacesARemovedStore) {
  node_.Start();
  ASSERT_TRUE(counting_.WaitForReturned(50'000));
  ASSERT_GT(node_.Counter("ingest.rows"), 0u);
  RemoveStoreAtOnce();
  ASSERT_TRUE(WaitFor([&] { return node_.LogCount("rows were lost with an earlier store") == 1; }));
  ASSERT_TRUE(counting_.WaitForReturned(counting_.returned() + 50'000));
  EXPECT_EQ(counting_.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  ExpectTheRestAndTheGap();
  EXPECT_EQ(node_.LogCount("was removed while the daemon was running"), 1u);
  EXPECT_EQ(node_.Terminate(), 0);
}

TEST_F(LostStoreTest, AnIdleDaemonNoticesToo) {
  counting_.rank().Kill();
  node_.Start();
  RemoveStoreAtOnce();
  ASSERT_TRUE(
      WaitFor([&] { return node_.LogCount("was removed while the daemon was running") == 1; }));
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(node_.state_dir() + "/ranklog.db"); }));
}

// A store of another time, for example a backup, takes the place of the daemon's own.
TEST_F(LostStoreTest, ReplacementIsNotReportedAsNew) {
  counting_.rank().Kill();
  node_.Start();
  EXPECT_EQ(node_.Terminate(), 0);
  const std::string backup = node_.state_dir() + ".backup";
  std::filesystem::copy(node_.state_dir(), backup, std::filesystem::copy_options::recursive);
  node_.Start();
  // Renamed over the old file, so that there is a store at every moment.
  std::filesystem::rename(backup + "/ranklog.db", node_.state_dir() + "/ranklog.db");
  ASSERT_TRUE(
      WaitFor([&] { return node_.LogCount("was replaced while the daemon was running") == 1; }));
  EXPECT_EQ(node_.LogCount("a new store was created"), 0u);
}

// For example, somebody removes old files. Without the lock file, `ranklog stop` finds no daemon,
// and a second daemon took the same store.
TEST_F(LostStoreTest, RemovedLockFileIsRecreated) {
  node_.Start();
  ASSERT_TRUE(counting_.WaitForReturned(1'000));
  std::filesystem::remove(node_.state_dir() + "/lock");
  ChildProcess second(
      {RANKLOGD, "--state-dir", node_.state_dir(), "--listen", node_.address() + "2"});
  EXPECT_EQ(second.Wait(absl::Seconds(5)), 1) << "a second daemon serves the store";
  EXPECT_THAT(second.Output(),
              HasSubstr("is in use by process " + std::to_string(node_.daemon().pid())));
  second.Kill();
  ASSERT_TRUE(WaitFor(
      [&] { return node_.LogCount("/lock was removed while the daemon was running") == 1; }));
  EXPECT_EQ(storage::StateLock::Holder(node_.state_dir()), node_.daemon().pid());
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_ADDRESS", node_.address()}};
  const Finished stop = RunToEnd({RANKLOG_CLI, "stop", "--state-dir", node_.state_dir()}, options);
  EXPECT_EQ(stop.code, 0) << stop.output;
  EXPECT_THAT(stop.output, HasSubstr("stopped pid"));
  node_.Start();
  EXPECT_EQ(counting_.Finish(), 0);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(counting_.ExpectEveryReturnedRowOnce(), 0u);
}

TEST_F(LostStoreTest, DaemonEndsIfLockIsReplaced) {
  counting_.rank().Kill();
  node_.Start();
  const std::string lock = node_.state_dir() + "/lock";
  const int fd = open((lock + ".new").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(fd, F_OFD_SETLK, &whole), 0);
  std::filesystem::rename(lock + ".new", lock);
  EXPECT_EQ(node_.daemon().Wait(absl::Seconds(10)), 1);
  EXPECT_EQ(node_.LogCount("in use by process"), 1u);
  EXPECT_THAT(node_.Log(), HasSubstr("stopped"));
  close(fd);
}

}  // namespace
}  // namespace ranklog::testing
