// `ranklog sync` with real programs: a job that ran without a network is delivered afterwards, with
// or without a daemon. S14.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/clock.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int kSyncRows = 300;

class SyncTest : public ::testing::Test {
 protected:
  // Runs a job of one rank whose rows stay on this node.
  void LogLocally(const std::string& job) {
    ChildProcess rank =
        node_.StartRank(job, 0, 0, 1, 1, {std::to_string(kSyncRows)},
                        {{"RANKLOG_DESTINATIONS", "local"}, {"WANDB_BASE_URL", wandb_->url()}});
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded(job); }));
  }

  // The same, but without a daemon. The rank is killed after it has logged.
  void LeaveInASpool(const std::string& job, const std::map<std::string, std::string>& settings) {
    ChildProcess rank =
        node_.StartRank(job, 0, 0, 1, 1, {std::to_string(kSyncRows), "kill"}, settings);
    EXPECT_EQ(rank.Wait(), -SIGKILL) << rank.Output();
  }

  // `where`: the arguments that locate the store.
  Finished Sync(std::vector<std::string> where, std::vector<std::string> args) const {
    args.insert(args.begin(), where.begin(), where.end());
    args.insert(args.begin(), {RANKLOG_CLI, "sync"});
    return RunToEnd(args, options_);
  }
  Finished Sync(std::vector<std::string> args) const {
    return Sync({"--state-dir", node_.state_dir()}, std::move(args));
  }
  Finished SyncAtDaemon(std::vector<std::string> args) const {
    return Sync({"--address", node_.address()}, std::move(args));
  }

  // `may_repeat`: rows may have been sent again to the same lines.
  void ExpectEveryRowOnce(const std::string& job, bool may_repeat = false) const {
    EXPECT_THAT(wandb_->errors(), IsEmpty());
    const FakeWandb::Run run = wandb_->run(job);
    EXPECT_TRUE(run.complete);
    if (!may_repeat) {
      EXPECT_EQ(run.repeated_lines, 0u);
    }
    ASSERT_THAT(run.history, SizeIs(kSyncRows));
    for (int step = 0; step < kSyncRows; ++step) {
      const nlohmann::json row = ParseExtendedJson(run.history[step]);
      ASSERT_EQ(row["_step"], step);
      ASSERT_EQ(row["loss"], step);
    }
  }

  std::unique_ptr<FakeWandb> wandb_ = std::make_unique<FakeWandb>();
  Node node_;
  ChildProcess::Options options_{
      .environment = {{"WANDB_API_KEY", std::string(40, 'k')}}, .unset = {}, .output = ""};
};

TEST_F(SyncTest, DeliversLocalRunOnceWithoutDaemon) {
  node_.Start();
  LogLocally("job");
  EXPECT_THAT(wandb_->requests(), IsEmpty()) << "a local run asked for the network";
  EXPECT_EQ(node_.Terminate(), 0);

  const Finished first = Sync({"--to", "wandb", "latest"});
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("test:job  wandb  300 of 300 rows delivered"));
  ExpectEveryRowOnce("job");

  const size_t requests = wandb_->requests().size();
  for (const std::vector<std::string>& again :
       std::vector<std::vector<std::string>>{{"--to", "wandb", "latest"}, {"latest"}, {}}) {
    const Finished second = Sync(again);
    EXPECT_EQ(second.code, 0) << second.output;
  }
  EXPECT_THAT(wandb_->requests(), SizeIs(requests)) << "nothing was left to send";
}

TEST_F(SyncTest, ReportsOutageAndNextSyncResumes) {
  node_.Start();
  LogLocally("job");
  EXPECT_EQ(node_.Terminate(), 0);
  const int port = wandb_->port();
  wandb_.reset();

  const Finished down = Sync({"--to", "wandb", "latest", "--timeout", "500ms"});
  EXPECT_EQ(down.code, 1);
  EXPECT_THAT(down.output, HasSubstr("0 of 300 rows delivered, 300 left"));
  EXPECT_THAT(down.output, HasSubstr("127.0.0.1"));

  wandb_ = std::make_unique<FakeWandb>(port);
  const Finished up = Sync({});  // the run has its destination now
  EXPECT_EQ(up.code, 0) << up.output;
  ExpectEveryRowOnce("job");
}

// As on a login node, after a job without a network.
class CopiedStoreTest : public SyncTest {
 protected:
  void SetUp() override {
    const int port = wandb_->port();
    auto environment = WandbAt(wandb_->url());
    wandb_.reset();
    node_.Start();
    ChildProcess rank =
        node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kSyncRows)}, environment);
    ASSERT_EQ(rank.Wait(), 0) << rank.Output();
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    EXPECT_EQ(node_.Terminate(), 0);
    std::filesystem::copy(node_.state_dir(), copy_, std::filesystem::copy_options::recursive);
    wandb_ = std::make_unique<FakeWandb>(port);
  }

  void StartWithKey() { node_.StartWith({{"WANDB_API_KEY", std::string(40, 'k')}}); }
  Finished SyncCopy() const { return Sync({"--state-dir", copy_}, {}); }
  bool DaemonHasDelivered() const {
    const auto deliveries = node_.Reader()->Deliveries(node_.GetRun("job").id);
    return deliveries.ok() && deliveries->size() == 1 && deliveries->front().complete;
  }

  TempDir dir_;
  const std::string copy_ = dir_.File("copy");
};

TEST_F(CopiedStoreTest, DeliversEachRowOnce) {
  const Finished sync = SyncCopy();
  EXPECT_EQ(sync.code, 0) << sync.output;
  ExpectEveryRowOnce("job");
  StartWithKey();
  EXPECT_TRUE(WaitFor([&] { return DaemonHasDelivered(); }));
  ExpectEveryRowOnce("job", /*may_repeat=*/true);
}

TEST_F(CopiedStoreTest, DaemonOfOriginalDeliversAtTheSameTime) {
  StartWithKey();
  const Finished sync = SyncCopy();
  EXPECT_EQ(sync.code, 0) << sync.output;
  EXPECT_TRUE(WaitFor([&] { return DaemonHasDelivered(); }));
  ExpectEveryRowOnce("job", /*may_repeat=*/true);
}

// Like the epilog of Slurm, which must not wait for another job of the user.
TEST_F(SyncTest, WaitIgnoresOtherSlurmJobs) {
  node_.Start();
  std::map<std::string, std::string> settings = WandbAt(wandb_->url());
  settings["SLURM_JOB_ID"] = "8";
  const std::string stop = node_.state_dir() + "/stop";
  ChildProcess other =
      node_.StartRank("other", 0, 0, 1, 1, {"1000000", "0", "1000", stop}, settings);
  settings["SLURM_JOB_ID"] = "7";
  ChildProcess ours =
      node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kSyncRows), "0", "10000"}, settings);
  for (const char* job : {"other", "job"}) {
    ASSERT_TRUE(WaitFor([&] { return node_.GetRun(job).rows > 0; }));
  }
  const Finished sync = SyncAtDaemon({"--wait", "--slurm-job", "7"});
  EXPECT_EQ(sync.code, 0) << sync.output;
  EXPECT_THAT(sync.output,
              AllOf(HasSubstr("test:job  wandb  300 of 300 rows"), Not(HasSubstr("test:other"))));
  ExpectEveryRowOnce("job");
  EXPECT_FALSE(wandb_->run("other").complete);
  other.Kill();
}

TEST_F(SyncTest, RequestsDeliveryFromRunningDaemon) {
  node_.Start();
  LogLocally("job");
  const Finished finished = SyncAtDaemon({"--to", "wandb", "latest"});
  EXPECT_EQ(finished.code, 0) << finished.output;
  EXPECT_THAT(finished.output, HasSubstr("test:job  wandb  300 of 300 rows delivered"));
  ExpectEveryRowOnce("job");
  EXPECT_EQ(SyncAtDaemon({"--to", "wandb", "latest"}).code, 0);
  ExpectEveryRowOnce("job");
}

TEST_F(SyncTest, FollowsTheDaemonThatDelivers) {
  const int port = wandb_->port();
  const std::string url = wandb_->url();
  wandb_.reset();
  node_.Start();
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kSyncRows)}, WandbAt(url));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  ChildProcess sync({RANKLOG_CLI, "--state-dir", node_.state_dir(), "sync"}, options_);
  ASSERT_TRUE(WaitFor([&] { return sync.Output().find("127.0.0.1") != std::string::npos; }));
  wandb_ = std::make_unique<FakeWandb>(port);
  EXPECT_EQ(sync.Wait(), 0) << sync.Output();
  ExpectEveryRowOnce("job");
}

// Like the last command of a job whose ranks are still running.
TEST_F(SyncTest, WaitFlagWaitsForRunEnd) {
  node_.Start();
  const std::string stop = node_.socket() + ".stop";
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {"0", "0", "0", stop}, WandbAt(wandb_->url()));
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").id != 0; }));
  ChildProcess waits({RANKLOG_CLI, "--state-dir", node_.state_dir(), "sync", "job", "--wait"},
                     options_);
  EXPECT_EQ(Sync({"job"}).code, 0) << "it has what there is";
  EXPECT_FALSE(waits.Wait(absl::Seconds(1)).has_value()) << waits.Output();
  close(open(stop.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
  EXPECT_EQ(waits.Wait(), 0) << waits.Output();
  EXPECT_TRUE(wandb_->run("job").complete);
}

// Only one of the eight ranks calls Init(), so the daemon waits some seconds for the others before
// it ends the run.
TEST_F(SyncTest, WaitsForTheEndOfARunWhoseRanksHaveEnded) {
  node_.Start();
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 8, 8, {std::to_string(kSyncRows)}, WandbAt(wandb_->url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  const Finished sync = SyncAtDaemon({});
  EXPECT_EQ(sync.code, 0) << sync.output;
  EXPECT_TRUE(wandb_->run("job").complete);
}

// The end of a container: the rank was killed before there was a daemon, and there is no store.
TEST_F(SyncTest, TakesSpoolOfUnattachedRank) {
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  auto to_wandb = WandbAt(wandb_->url());
  to_wandb["RANKLOG_DESTINATIONS"] = "wandb";
  LeaveInASpool("job", to_wandb);
  for (const char* command : {"runs", "status"}) {
    const Finished untaken =
        RunToEnd({RANKLOG_CLI, command, "--state-dir", node_.state_dir()}, options_);
    EXPECT_EQ(untaken.code, 1);
    EXPECT_THAT(untaken.output, HasSubstr("300 rows of rank 0 of test:job are only in a spool"));
  }
  const Finished sync = Sync({});
  EXPECT_EQ(sync.code, 0) << sync.output;
  EXPECT_THAT(sync.output, HasSubstr("took 300 rows from the spool of 1 rank"));
  EXPECT_THAT(sync.output, HasSubstr("test:job  wandb  300 of 300 rows delivered"));
  ExpectEveryRowOnce("job");
  EXPECT_EQ(node_.GetRun("job").state, model::RunState::kCrashed);
  EXPECT_THAT(Sync({}).output, HasSubstr("nothing waits to be delivered"));
}

TEST_F(SyncTest, TakesSpoolLeftDuringSync) {
  const int port = wandb_->port();
  auto to_wandb = WandbAt(wandb_->url());
  to_wandb["RANKLOG_DESTINATIONS"] = "wandb";
  wandb_.reset();
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  LeaveInASpool("first", to_wandb);
  ChildProcess sync({RANKLOG_CLI, "--state-dir", node_.state_dir(), "sync"}, options_);
  ASSERT_TRUE(WaitFor([&] { return sync.Output().find("127.0.0.1") != std::string::npos; }));
  LeaveInASpool("second", to_wandb);
  wandb_ = std::make_unique<FakeWandb>(port);
  EXPECT_EQ(sync.Wait(), 0) << sync.Output();
  ExpectEveryRowOnce("first");
  ExpectEveryRowOnce("second");
}

// The spool's run is newer than all runs in the store, and stays on this node.
TEST_F(SyncTest, OrphanSpoolsAreReported) {
  node_.Start();
  LogLocally("first");
  EXPECT_EQ(node_.Terminate(), 0);
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  const auto ranklog = [&](const char* command) {
    return RunToEnd({RANKLOG_CLI, command, "--state-dir", node_.state_dir()}, options_);
  };
  EXPECT_THAT(ranklog("doctor").output, Not(HasSubstr("in a spool")));
  LeaveInASpool("second", {{"RANKLOG_DESTINATIONS", "local"}});
  const std::string text = "300 rows of rank 0 of test:second are only in a spool";
  const Finished doctor = ranklog("doctor");
  EXPECT_EQ(doctor.code, 1);
  const std::string command = "run `ranklog --state-dir " + node_.state_dir() + " sync` to store";
  EXPECT_THAT(doctor.output, AllOf(HasSubstr(text), HasSubstr(command)));
  EXPECT_THAT(ranklog("status").output, AllOf(HasSubstr(text), HasSubstr(command)));
  const std::vector<std::string> show = {RANKLOG_CLI, "show", "latest", "--state-dir",
                                         node_.state_dir()};
  EXPECT_THAT(RunToEnd(show, options_).output, HasSubstr(text));
  EXPECT_EQ(Sync({}).code, 0);
  EXPECT_THAT(RunToEnd(show, options_).output, HasSubstr("second"));
  EXPECT_EQ(node_.GetRun("second").rows, uint64_t{kSyncRows});
  EXPECT_THAT(ranklog("doctor").output, Not(HasSubstr("in a spool")));
}

// The daemon cannot start, for example, or was killed. A rank that uses another daemon is not
// reported.
TEST_F(SyncTest, LiveRankWithoutDaemonIsReported) {
  node_.Start();
  LogLocally("first");
  EXPECT_EQ(node_.Terminate(), 0);
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  ChildProcess rank = node_.StartRank("second", 0, 0, 1, 1, {std::to_string(kSyncRows), "stay"},
                                      {{"RANKLOG_DESTINATIONS", "local"}});
  ASSERT_TRUE(WaitFor([&] { return rank.Output().find("logged") != std::string::npos; }));
  const std::string text =
      "rank 0 of test:second is still running; 300 rows wait in its spool for a daemon: no daemon "
      "is running; start one: ranklogd --background --state-dir " +
      node_.state_dir();
  const auto ranklog = [&](std::vector<std::string> args) {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    return RunToEnd(args, options_);
  };
  const std::vector<std::vector<std::string>> commands = {{"status"}, {"runs"}, {"show", "latest"}};
  for (const auto& command : commands) EXPECT_THAT(ranklog(command).output, HasSubstr(text));
  const Finished doctor = ranklog({"doctor"});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_THAT(doctor.output, AllOf(HasSubstr(text.substr(0, 40)),
                                   HasSubstr("no daemon is running; start one: ranklogd ")));
  const Finished sync = ranklog({"sync"});
  EXPECT_EQ(sync.code, 1);
  EXPECT_THAT(sync.output, AllOf(HasSubstr(text), Not(HasSubstr("nothing waits"))));

  options_.environment["RANKLOG_ADDRESS"] = node_.address() + ".other";
  EXPECT_THAT(
      ranklog({"status"}).output,
      AllOf(Not(HasSubstr(text)), HasSubstr("can only go to a daemon at " + node_.address())));
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  node_.Start();
  // The last step is open until the rank logs another one.
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("second").rows >= uint64_t{kSyncRows - 1}; }));
  for (const auto& command : commands) {
    EXPECT_THAT(ranklog(command).output, Not(HasSubstr("is still running")));
  }
  EXPECT_EQ(ranklog({"sync"}).code, 0);
}

// The node lost power, for example. Only a daemon waits long enough for the rank to come back.
TEST_F(SyncTest, RowsThatNoRunHasYetAreReported) {
  node_.Start();
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kSyncRows), "stay"},
                                      {{"RANKLOG_DESTINATIONS", "local"}});
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").rows == uint64_t{kSyncRows - 1}; }));
  node_.Kill();
  rank.Kill();
  std::filesystem::remove_all(node_.spool_dir());
  const Finished sync = Sync({});
  EXPECT_EQ(sync.code, 1);
  EXPECT_THAT(sync.output, AllOf(HasSubstr("1 row of job is stored, but not in its run yet"),
                                 HasSubstr("within 20 seconds: ranklogd --background")));
  node_.Start();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(Sync({}).code, 0);
  EXPECT_EQ(node_.GetRun("job").rows, uint64_t{kSyncRows});
}

// A typing error in the rank's RANKLOG_ADDRESS, for example.
TEST_F(SyncTest, SpoolForUnservedAddressIsNamed) {
  node_.Start();
  LogLocally("first");
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  const auto doctor = [&] {
    return RunToEnd({RANKLOG_CLI, "doctor", "--state-dir", node_.state_dir()}, options_).output;
  };
  const std::string elsewhere = node_.address() + ".other";
  ChildProcess rank =
      node_.StartRank("second", 0, 0, 1, 1, {std::to_string(kSyncRows), "stay"},
                      {{"RANKLOG_DESTINATIONS", "local"}, {"RANKLOG_ADDRESS", elsewhere}});
  ASSERT_TRUE(WaitFor([&] { return rank.Output().find("logged") != std::string::npos; }));
  const std::string text =
      "300 rows of rank 0 of test:second can only go to a daemon at " + elsewhere;
  const std::string ranklog = "ranklog --state-dir " + node_.state_dir();
  const std::string advice = "RANKLOG_ADDRESS=" + elsewhere + " " + ranklog + " sync";
  const std::string start =
      "RANKLOG_ADDRESS=" + elsewhere + " ranklogd --background --state-dir " + node_.state_dir();
  const Finished alive = Sync({});
  EXPECT_EQ(alive.code, 1);
  EXPECT_THAT(alive.output, AllOf(HasSubstr(text + ", where none runs; the rank is still running"),
                                  HasSubstr("; run: " + ranklog + " stop; " + start),
                                  Not(HasSubstr("nothing waits"))));
  EXPECT_THAT(doctor(), HasSubstr(text));
  EXPECT_EQ(
      RunToEnd({RANKLOG_CLI, "status", "--check", "--state-dir", node_.state_dir()}, options_).code,
      1);
  rank.Kill();
  const Finished beside = Sync({});
  EXPECT_EQ(beside.code, 1);
  EXPECT_THAT(beside.output,
              AllOf(HasSubstr(text), HasSubstr("; run: " + ranklog + " stop; " + advice),
                    Not(HasSubstr("nothing waits"))));
  EXPECT_THAT(doctor(), AllOf(HasSubstr(text), HasSubstr(ranklog + " stop; " + advice)));
  const Finished runs = RunToEnd({RANKLOG_CLI, "runs", "--state-dir", node_.state_dir()}, options_);
  EXPECT_THAT(runs.output, HasSubstr("1 spool has rows that no daemon of this directory takes: to "
                                     "see why, run `" +
                                     ranklog + " doctor`"));
  const Finished status =
      RunToEnd({RANKLOG_CLI, "status", "--check", "--state-dir", node_.state_dir()}, options_);
  EXPECT_EQ(status.code, 1);
  EXPECT_THAT(status.output, AllOf(HasSubstr("spools  " + text), HasSubstr(advice),
                                   HasSubstr("ranklog: " + text)));
  EXPECT_EQ(node_.Terminate(), 0);
  const int port = wandb_->port();
  wandb_.reset();
  EXPECT_THAT(
      Sync({"--to", "wandb", "first", "--timeout", "500ms"}).output,
      AllOf(HasSubstr("300 left"), Not(HasSubstr(text)), HasSubstr("not all rows are deliv")));
  wandb_ = std::make_unique<FakeWandb>(port);
  EXPECT_THAT(Sync({}).output,
              AllOf(HasSubstr(text), HasSubstr(advice), Not(HasSubstr(" stop; "))));
  // Commands for another run are not about this spool.
  for (const char* command : {"sync", "show", "export", "tail", "verify"}) {
    const Finished named =
        RunToEnd({RANKLOG_CLI, command, "first", "--state-dir", node_.state_dir()}, options_);
    EXPECT_EQ(named.code, 0) << command << ": " << named.output;
    EXPECT_THAT(named.output, AllOf(Not(HasSubstr("spool")), Not(HasSubstr(elsewhere)))) << command;
  }
  options_.environment["RANKLOG_ADDRESS"] = elsewhere;
  EXPECT_EQ(Sync({}).code, 0);
  EXPECT_EQ(node_.GetRun("second").rows, uint64_t{kSyncRows});
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  EXPECT_EQ(Sync({}).code, 0);
}

TEST_F(SyncTest, UnstorableSpoolIsNamed) {
  node_.Start();
  LogLocally("first");
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  EXPECT_EQ(node_.Terminate(), 0);
  LeaveInASpool("second", {{"RANKLOG_DESTINATIONS", "local"}});
  std::string ring;
  for (const auto& entry : std::filesystem::directory_iterator(node_.spool_dir())) {
    ring = entry.path().string();
  }
  std::fstream file(ring, std::ios::in | std::ios::out | std::ios::binary);
  const auto exchange = [&file](size_t at, std::string bytes) {
    std::string before(bytes.size(), '\0');
    file.seekg(static_cast<std::streamoff>(at));
    file.read(before.data(), static_cast<std::streamsize>(before.size()));
    file.seekp(static_cast<std::streamoff>(at));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    return before;
  };
  const auto expect_named = [&](const std::string& text) {
    for (const char* command : {"sync", "doctor"}) {
      const Finished named =
          RunToEnd({RANKLOG_CLI, command, "--state-dir", node_.state_dir()}, options_);
      EXPECT_EQ(named.code, 1);
      EXPECT_THAT(named.output, AllOf(HasSubstr(ring + ": " + text), HasSubstr("remove it"),
                                      Not(HasSubstr("nothing waits"))));
    }
  };
  const std::string good = exchange(v1::kSpoolHeaderBytes, std::string(v1::kSpoolHelloBytes, 0));
  const std::string size = exchange(offsetof(v1::SpoolHeader, hello_bytes), std::string(4, 0));
  uint32_t hello_bytes = 0;
  memcpy(&hello_bytes, size.data(), sizeof hello_bytes);
  v1::Hello hello;
  ASSERT_TRUE(hello.ParseFromArray(good.data(), static_cast<int>(hello_bytes)));
  hello.mutable_stream()->set_rank(7);  // of one rank
  const std::string refused = hello.SerializeAsString();
  hello_bytes = static_cast<uint32_t>(refused.size());
  exchange(v1::kSpoolHeaderBytes, refused);
  exchange(offsetof(v1::SpoolHeader, hello_bytes),
           std::string(reinterpret_cast<const char*>(&hello_bytes), sizeof hello_bytes));
  expect_named("300 rows of rank 7 of test:second cannot be stored: session: ");
  exchange(v1::kSpoolHeaderBytes, good);
  exchange(offsetof(v1::SpoolHeader, hello_bytes), size);
  exchange(v1::kSpoolHeaderBytes, "\xff");
  expect_named("300 rows of a spool cannot be stored: its Hello is unreadable");
  exchange(v1::kSpoolHeaderBytes, good.substr(0, 1));
  const std::string offset = exchange(offsetof(v1::SpoolHeader, data_offset), "\x01");
  expect_named("the rows of a spool cannot be stored: the spool's sizes contradict each other");
  exchange(offsetof(v1::SpoolHeader, data_offset), offset);
  EXPECT_EQ(Sync({}).code, 0);
  EXPECT_EQ(node_.GetRun("second").rows, uint64_t{kSyncRows});
}

// The daemon was restarted after the job, or met its spools only then.
TEST_F(SyncTest, GivesKeyToRunningDaemon) {
  auto to_wandb = WandbAt(wandb_->url());
  to_wandb["RANKLOG_DESTINATIONS"] = "wandb";
  to_wandb["WANDB_API_KEY"] = "";
  LeaveInASpool("job", to_wandb);
  const TempDir home;
  node_.StartWith({{"HOME", home.path()}, {"XDG_CONFIG_HOME", home.path()}});
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  const Finished sync = SyncAtDaemon({"--timeout", "10s"});
  EXPECT_EQ(sync.code, 0) << sync.output;
  ExpectEveryRowOnce("job");
}

TEST_F(SyncTest, ReportsHungDaemonAndPendingRows) {
  const std::string url = wandb_->url();
  wandb_.reset();
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  node_.Start();
  ChildProcess rank = node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kSyncRows)}, WandbAt(url));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").rows == uint64_t{kSyncRows}; }));
  node_.daemon().Signal(SIGSTOP);
  LeaveInASpool("left", WandbAt(url));
  const absl::Time began = SteadyNow();
  const Finished sync = Sync({});
  const absl::Duration took = SteadyNow() - began;
  node_.daemon().Signal(SIGCONT);
  EXPECT_EQ(sync.code, 1);
  EXPECT_LT(took, absl::Seconds(9));  // it waits for two answers, for two seconds each
  EXPECT_THAT(sync.output, AllOf(HasSubstr("the daemon has the store, but it does not answer at " +
                                           node_.address() + ": is process " +
                                           std::to_string(node_.daemon().pid()) + " stopped"),
                                 HasSubstr("test:job  wandb  0 of 300 rows delivered, 300 left"),
                                 HasSubstr("300 rows of rank 0 of test:left are only in a spool"),
                                 Not(HasSubstr("nothing waits"))));
}

// Both were killed at once, so the store still has the run as running.
TEST_F(SyncTest, TakesSpoolWhenBothAreKilled) {
  node_.Start();
  auto settings = WandbAt(wandb_->url());
  settings["RANKLOG_FLUSH_INTERVAL_MS"] = "60000";
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {std::to_string(kSyncRows), "stay"}, settings);
  ASSERT_TRUE(WaitFor([&] { return node_.GetRun("job").id != 0; }));
  ASSERT_TRUE(WaitFor([&] { return rank.Output().find("logged") != std::string::npos; }));
  node_.Kill();
  rank.Kill();
  options_.environment["RANKLOG_ADDRESS"] = node_.address();
  options_.environment["RANKLOG_SPOOL_DIR"] = node_.spool_dir();
  const Finished doctor =
      RunToEnd({RANKLOG_CLI, "doctor", "--state-dir", node_.state_dir()}, options_);
  EXPECT_EQ(doctor.code, 1);
  EXPECT_THAT(doctor.output,  // rows, or only its end
              ContainsRegex("of rank 0 of test:job (is|are) only in a spool"));
  const Finished sync = Sync({});
  EXPECT_EQ(sync.code, 0) << sync.output;
  ExpectEveryRowOnce("job");
}

TEST_F(SyncTest, MissingKeyErrorNamesVariable) {
  node_.Start();
  LogLocally("job");
  TempDir home;
  options_.environment = {{"HOME", home.path()}, {"XDG_CONFIG_HOME", home.path()}};
  options_.unset = {"WANDB_API_KEY", "NETRC"};
  const Finished finished = SyncAtDaemon({"--to", "wandb", "latest"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.output, HasSubstr("WANDB_API_KEY"));
}

}  // namespace
}  // namespace ranklog::testing
