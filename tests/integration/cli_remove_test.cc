// `ranklog rm`, without a daemon and with one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cli_fixture.h"
#include "tests/integration/node.h"
#include "tests/support/dead_port.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(CliTest, RemoveWithoutATerminalWantsYes) {
  const Finished finished = Ranklog({"rm", "tiny", "--force"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.output, AllOf(HasSubstr("--yes"), HasSubstr("`ranklog rm --help`")));
  EXPECT_EQ(Ranklog({"rm", "--yes"}).code, 2);
  EXPECT_THAT(RanklogJson({"runs"}), SizeIs(2));
}

TEST_F(CliTest, RemoveKeepsARunThatRunsAndAsksForForceWhereRowsWait) {
  store_.reset();
  const Finished waits = Ranklog({"rm", "tiny", "--yes"});
  EXPECT_EQ(waits.code, 1);
  EXPECT_THAT(waits.output, AllOf(HasSubstr("2 rows not delivered to wandb"), HasSubstr("--force"),
                                  HasSubstr("nothing was removed")));
  // Of several runs one that cannot go keeps all.
  const Finished runs = Ranklog({"rm", "tiny", "other", "--yes", "--force"});
  EXPECT_EQ(runs.code, 1);
  EXPECT_THAT(runs.output, AllOf(HasSubstr("gpt:job2 is still running"),
                                 HasSubstr("start ranklogd"), Not(HasSubstr("removed gpt"))));
  EXPECT_THAT(RanklogJson({"runs"}), SizeIs(2));
}

TEST_F(CliTest, RemoveLeavesNothingOfARun) {
  store_.reset();
  const std::string spool = dir_.File("spool");
  std::filesystem::create_directory(spool);
  options_.environment["RANKLOG_SPOOL_DIR"] = spool;
  const std::string other = spool + "/ring-7-00000000000000ff.spool.damaged";
  for (const std::string& ring : {spool + "/ring-7-00000000000000a0.spool.damaged",
                                  spool + "/ring-8-00000000000000a1.spool", other}) {
    std::ofstream(ring) << "x";
  }
  const Json removed = RanklogJson({"rm", "job1", "tiny", "--yes", "--force"});
  ASSERT_THAT(removed, SizeIs(1)) << "named twice";
  EXPECT_EQ(removed[0], Parse(R"({"run_id":"job1","project":"gpt","name":"tiny","rows":5,
      "undelivered_rows":2})"));
  EXPECT_EQ(Ranklog({"show", "tiny"}).code, 1);
  EXPECT_THAT(RanklogJson({"runs"}), SizeIs(1));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(spool)) {
    left.push_back(entry.path().string());
  }
  EXPECT_THAT(left, ElementsAre(other));
  // What it held is not damage, and its space is free.
  ASSERT_OK_AND_ASSIGN(const auto reader, storage::StoreReader::Open(state_dir()));
  EXPECT_OK(reader->Check());
  EXPECT_THAT(Ranklog({"doctor"}).output, HasSubstr("no damage found"));
}

class RemoveBesideADaemonTest : public ::testing::Test {
 protected:
  Finished Ranklog(std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()},
                           {"RANKLOG_SPOOL_DIR", node_.spool_dir()}};
    options.unset = {"WANDB_API_KEY"};
    return RunToEnd(args, options);
  }
  Json Runs() const { return Parse(Ranklog({"runs", "--json"}).output); }
  void MakeRun(const std::string& job, std::map<std::string, std::string> settings) {
    ChildProcess rank = node_.StartRank(job, 0, 0, 1, 1, {"100"}, std::move(settings));
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  }

  const DeadPort dead_{DeadPort::kRefuses};
  Node node_;
};

TEST_F(RemoveBesideADaemonTest, TheDaemonRemovesWhatIsAskedFor) {
  node_.Start();
  const std::map<std::string, std::string> local = {{"RANKLOG_DESTINATIONS", "local"}};
  const std::string stop = node_.state_dir() + "/stop";
  ChildProcess live = node_.StartRank("live", 0, 0, 1, 1, {"100000", "0", "1000", stop}, local);
  MakeRun("first", local);
  MakeRun("waiting", WandbAt(dead_.url()));
  ASSERT_TRUE(WaitFor([&] { return node_.Counter("deliver.failing") == 1; }));

  const Finished attached = Ranklog({"rm", "live", "--yes", "--force"});
  EXPECT_EQ(attached.code, 1);
  EXPECT_THAT(attached.output, HasSubstr("test:live is still running"));
  EXPECT_THAT(Ranklog({"rm", "waiting", "--yes"}).output, HasSubstr("100 rows not delivered"));

  const Finished removed = Ranklog({"rm", "fir", "waiting", "--yes", "--force"});
  EXPECT_EQ(removed.code, 0) << removed.output;
  EXPECT_THAT(removed.output, AllOf(HasSubstr("removed test:first, 100 rows\n"),
                                    HasSubstr("removed test:waiting, 100 rows\n")));
  EXPECT_THAT(Runs(), SizeIs(1));
  // The daemon sends nothing of it any more, has its space again, and goes on.
  EXPECT_TRUE(WaitFor([&] { return node_.Counter("deliver.failing") == 0; }));
  EXPECT_EQ(node_.Counter("deliver.pending"), 1u) << "the live one";
  EXPECT_TRUE(WaitFor([&] { return node_.Counter("store.removed_bytes") > 0; }));
  EXPECT_EQ(node_.Counter("store.removed_runs"), 2u);
  EXPECT_EQ(node_.TimesSaid("run waiting: removed with 100 rows"), 1u);
  EXPECT_FALSE(std::filesystem::is_empty(node_.spool_dir())) << "the ring of the live one";

  MakeRun("first", local);  // the name is free again
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("first"); }));
  EXPECT_EQ(node_.GetRun("first").rows, 100u);
  node_.Kill();
  node_.Start();
  EXPECT_THAT(Runs(), SizeIs(2));
  EXPECT_OK(node_.Reader()->Check());
  fclose(fopen(stop.c_str(), "w"));
  EXPECT_EQ(live.Wait(), 0) << live.Output();
}

}  // namespace
}  // namespace ranklog::testing
