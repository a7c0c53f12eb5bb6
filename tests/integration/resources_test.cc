// Resources other than the disk disappear: the socket file, space for spools, file descriptors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "tests/integration/counting_job.h"
#include "tests/support/absent.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::HasSubstr;

class ResourcesTest : public ::testing::Test {
 protected:
  absl::Duration DaemonCpu() {
    clockid_t clock;
    timespec used{};
    EXPECT_EQ(clock_getcpuclockid(node_.daemon().pid(), &clock), 0);
    EXPECT_EQ(clock_gettime(clock, &used), 0);
    return absl::DurationFromTimespec(used);
  }

  Node node_;
};

TEST_F(ResourcesTest, RemovedSocketFileIsRecreated) {
  node_.Start();
  CountingJob counting(node_, "job", 0);
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("ingest.rows") > 0; }));
  ASSERT_TRUE(std::filesystem::remove(node_.socket()));
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(node_.socket()); }));
  ChildProcess other = node_.StartRank("other", 0, 0, 1, 1, {"10"});
  EXPECT_EQ(other.Wait(), 0) << other.Output();
  EXPECT_EQ(node_.Counter("accept.rebinds"), 1u);
  EXPECT_EQ(node_.LogCount("was removed and has been created again"), 1);
  EXPECT_EQ(node_.Counter("ingest.attaches"), 2u);  // the first rank's stream was not disturbed
  EXPECT_EQ(counting.Finish(), 0);
  // It logged as fast as it could, and a busy daemon is slower.
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }, absl::Minutes(2)));
  counting.ExpectEveryReturnedRowOnce();
}

TEST_F(ResourcesTest, FullSpoolDirectoryIsSkipped) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk spools(node_.spool_dir(), "64k");
  ASSERT_TRUE(spools.mounted());
  node_.Start();
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {"100"});
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_TRUE(std::filesystem::is_empty(node_.spool_dir()));
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").rows, 100u);
}

// Like the /dev/shm of a container, where other programs need space too.
TEST_F(ResourcesTest, RingsUseQuarterOfSmallFilesystem) {  // S43
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  constexpr int kRanks = 8;
  const SmallDisk spools(node_.spool_dir(), "64m");
  ASSERT_TRUE(spools.mounted());
  node_.Start();
  for (const bool counted : {true, false}) {
    const std::string job = counted ? "counted" : "not-counted";
    std::map<std::string, std::string> environment;
    if (!counted) environment = {{"LOCAL_RANK", ""}, {"LOCAL_WORLD_SIZE", ""}};
    std::vector<ChildProcess> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(node_.StartRank(job, rank, rank, kRanks, kRanks,
                                      {"1000000", "0", "1000", node_.state_dir() + "/" + job},
                                      environment));
    }
    ASSERT_TRUE(WaitFor(
        [&] { return node_.Counter("ingest.attaches") == (counted ? kRanks : 2 * kRanks); }));
    const auto space = std::filesystem::space(node_.spool_dir());
    EXPECT_LE(space.capacity - space.free, space.capacity / 4 + (1 << 20)) << job;
    std::ofstream(node_.state_dir() + "/" + job) << "stop";
    for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  }
}

// The kernel would end a process that makes a larger file than this limit.
TEST_F(ResourcesTest, SpoolRespectsFileSizeLimit) {
  node_.Start();
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
  options.environment["RANKLOG_QUIET"] = "0";
  const Finished rank = RunToEnd({"prlimit", "--fsize=1000000", TELLING_RANK, "100"}, options);
  EXPECT_EQ(rank.code, 0);
  EXPECT_THAT(rank.output, HasSubstr("returned 100, ring full 0: "));
  EXPECT_THAT(rank.output, HasSubstr("ranklog: the spool needs 8458240 bytes, and the file size "
                                     "limit of this process is 1000000; raise the limit (ulimit "
                                     "-f)"));
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").rows, 100u);
}

TEST_F(ResourcesTest, TrainingContinuesWithoutASpool) {
  node_.Start();
  ChildProcess::Options options;
  options.environment = node_.RankEnvironment("job", 0, 0, 1, 1);
  options.environment["RANKLOG_QUIET"] = "0";
  const Finished rank = RunToEnd({"prlimit", "--fsize=100000", TELLING_RANK, "100"}, options);
  EXPECT_EQ(rank.code, 0);
  EXPECT_THAT(rank.output, HasSubstr("returned 0, ring full 100: "));
  EXPECT_THAT(rank.output,
              HasSubstr("ranklog: run job: 0 rows of this rank are durable; 100 rows refused: the "
                        "spool needs 8458240 bytes, and the file size limit of this process is "
                        "100000; raise the limit (ulimit -f)"));
}

TEST_F(ResourcesTest, RanksWaitForFreeDescriptors) {
  constexpr int kRanks = 24;
  node_.Start();
  const rlimit few{.rlim_cur = 80, .rlim_max = 80};  // enough for a dozen ranks
  SKIP_WITHOUT(prlimit(node_.daemon().pid(), RLIMIT_NOFILE, &few, nullptr) == 0,
               "the right to limit a process that leaves no core file");
  const absl::Time start = SteadyNow();
  std::vector<ChildProcess> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(node_.StartRank("job", rank, rank, kRanks, kRanks, {"100", "0", "20000"},
                                    {{"RANKLOG_FINISH_TIMEOUT_MS", "200000"}}));
  }
  for (ChildProcess& rank : ranks) EXPECT_EQ(rank.Wait(absl::Seconds(200)), 0) << rank.Output();
  // On a busy machine it gets less CPU time, never more.
  EXPECT_LT(DaemonCpu(), (SteadyNow() - start) / 2) << "it spins";
  EXPECT_GE(node_.Counter("accept.shortages"), 1u);
  EXPECT_EQ(node_.LogCount("too few file descriptors"), node_.Counter("accept.shortages"));
  EXPECT_EQ(node_.Counter("ingest.unseen_rings"), 0u) << "those that are in have what they need";
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kFinished);
  EXPECT_EQ(node_.GetRun("job").rows, 100u);
  const auto streams = node_.Reader()->Streams(node_.GetRun("job").id);
  ASSERT_TRUE(streams.ok());
  EXPECT_EQ(streams->size(), static_cast<size_t>(kRanks));
  for (const model::Stream& stream : *streams) EXPECT_EQ(stream.durable_seq, 100u);
}

}  // namespace
}  // namespace ranklog::testing
