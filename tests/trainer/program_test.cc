// The program ranklog-train, as a user runs it. No daemon runs: the rows stay in the spool.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/support/without_daemon.h"
#include "trainer/parallel/process_group.h"
#include "trainer/parallel/rendezvous.h"
#include "trainer/run_log.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::Finished;
using ::ranklog::testing::RunToEnd;
using ::ranklog::testing::WaitFor;
using ::ranklog::testing::WithoutDaemon;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TrainProgramTest : public ::testing::Test {
 protected:
  std::vector<std::string> Command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), RANKLOG_TRAIN);
    return arguments;
  }
  Finished Train(std::vector<std::string> arguments) {
    return RunToEnd(Command(std::move(arguments)), WithoutDaemon(dir_));
  }
  // The exit code under repeated SIGTERM. The repeats end before two seconds, when they would count
  // as a second signal.
  static absl::optional<int> WaitUnderSignals(ChildProcess& child) {
    absl::optional<int> code;
    for (const absl::Time end = absl::Now() + absl::Seconds(1); !code && absl::Now() < end;) {
      child.Signal(SIGTERM);
      code = child.Wait(absl::Milliseconds(5));
    }
    return code ? code : child.Wait();
  }

  ranklog::testing::TempDir dir_;
};

TEST_F(TrainProgramTest, HelpShowsExamples) {
  const Finished help = Train({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.output, HasSubstr("Examples:"));
  EXPECT_EQ(Train({"--version"}).code, 0);
}

TEST_F(TrainProgramTest, ConfigHasEveryOption) {
  std::set<std::string> keys;
  for (const auto& [key, value] : RunConfig(Options(), Plan(), {})) keys.insert(key);
  // The first three are in the run itself.
  const std::set<std::string> left_out = {"project", "group", "log_strategy", "help", "version"};
  const std::string help = Train({"--help"}).output;
  const std::regex option("\n +(?:-[a-z],)?--([a-z-]+)");
  int options = 0;
  for (std::sregex_iterator found(help.begin(), help.end(), option), end; found != end; ++found) {
    const std::string key = absl::StrReplaceAll(found->str(1), {{"-", "_"}});
    options += left_out.count(key) == 0;
    EXPECT_TRUE(keys.count(key) + left_out.count(key) == 1) << key;
  }
  EXPECT_GT(options, 25);
}

TEST_F(TrainProgramTest, WrongUsageExitsWithTwo) {
  const Finished unknown = Train({"--no-such-flag"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, AllOf(StartsWith("ranklog-train: "), HasSubstr("--no-such-flag")));
  EXPECT_EQ(Train({"--steps", "0"}).code, 2);
}

TEST_F(TrainProgramTest, RefusedSettingStartsNoTraining) {
  const Finished refused = Train({"--project", "a/b"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(
      refused.output,
      "ranklog-train: training did not start: --project contains one of / \\ # ? % :, which the "
      "trackers refuse\n");
}

TEST_F(TrainProgramTest, NamesATextThatIsMissing) {
  for (const char* ranks : {"1", "2"}) {
    const Finished missing = Train({"--data", dir_.File("none.txt"), "--nproc-per-node", ranks});
    EXPECT_EQ(missing.code, 1);
    EXPECT_THAT(missing.output, HasSubstr(dir_.File("none.txt")));
  }
}

TEST_F(TrainProgramTest, TorchrunErrorFileHasEarlyFailure) {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--data", dir_.File("none.txt")}, {"--steps", "none.txt"}}) {
    ChildProcess::Options options = WithoutDaemon(dir_);
    options.environment["TORCHELASTIC_ERROR_FILE"] = dir_.File("error.json");
    RunToEnd(Command(wrong), options);
    std::ifstream file(dir_.File("error.json"));
    std::string content;
    EXPECT_TRUE(std::getline(file, content));
    EXPECT_THAT(content, HasSubstr("none.txt"));
    std::filesystem::remove(dir_.File("error.json"));
  }
}

TEST_F(TrainProgramTest, NamesTokensThatAreDamaged) {
  std::ofstream(dir_.File("torn.bin")) << "odd";
  const Finished torn = Train({"--data", dir_.File("torn.bin"), "--nproc-per-node", "2"});
  EXPECT_EQ(torn.code, 1);
  EXPECT_THAT(torn.output, AllOf(HasSubstr(dir_.File("torn.bin")), HasSubstr("damaged")));
}

TEST_F(TrainProgramTest, TokenizerIsForTexts) {
  EXPECT_EQ(Train({"--data", "x.bin", "--tokenizer", "bpe:4096"}).code, 2);
  const Finished unknown = Train({"--tokenizer", "words"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("use bytes, or bpe:N"));
}

TEST_F(TrainProgramTest, CorpusErrorReachesEveryRank) {  // S29
  std::ofstream(dir_.File("short.txt")) << "short";
  ChildProcess::Options options = WithoutDaemon(dir_);
  options.environment["TORCHELASTIC_ERROR_FILE"] = dir_.File("error.json");
  const Finished refused =
      RunToEnd(Command({"--data", dir_.File("short.txt"), "--nproc-per-node", "2", "--comm",
                        "gloo"}),  // so that a build with CUDA prints nothing before
               options);
  EXPECT_EQ(refused.code, 1);
  const std::string reason = "cannot train on " + dir_.File("short.txt") + ": it has 5 tokens";
  EXPECT_THAT(refused.output, AllOf(HasSubstr("rank 0: " + reason),
                                    ContainsRegex("rank 1: .*rank 0 (.*)?failed: " + reason),
                                    StartsWith("ranklog-train: "), Not(HasSubstr("\n\n")),
                                    HasSubstr("ranklog-train: rank 0 (pid ")));
  EXPECT_THAT(refused.output, StartsWith("ranklog-train: rank 0: " + reason));
  EXPECT_THAT(ranklog::testing::FileContent(dir_.File("error.json")), HasSubstr("it has 5 tokens"));
}

// The test is rank 0: it answers that it failed, and reports the failure later.
TEST_F(TrainProgramTest, PrintsOwnMessageAfterRankThatFailed) {
  ASSERT_OK_AND_ASSIGN(const HostedStore store, HostedStore::Serve());
  setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  ChildProcess::Options options = WithoutDaemon(dir_);
  options.environment.insert({{"RANK", "1"},
                              {"LOCAL_RANK", "1"},
                              {"GROUP_RANK", "0"},
                              {"WORLD_SIZE", "2"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"OMP_NUM_THREADS", "1"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                              {"MASTER_PORT", std::to_string(store.port())},
                              {"MASTER_ADDR", "127.0.0.1"}});
  ChildProcess other(Command({}), options);
  ASSERT_OK_AND_ASSIGN(ProcessGroup group, ProcessGroup::Join({.rank = 0,
                                                               .world_size = 2,
                                                               .address = "127.0.0.1",
                                                               .port = store.port(),
                                                               .hosted = true}));
  group.FromRankZero("corpus", [] { return "-no text"; });
  EXPECT_FALSE(WaitFor([&] { return !other.Output().empty(); }, absl::Seconds(1)))
      << other.Output();
  group.ReportFailure("no text");
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(other.Output(), HasSubstr("rank 1: rank 0 failed: no text\n"));
}

TEST_F(TrainProgramTest, TwoRankTrainingPrintsNextCommand) {
  const Finished done =
      Train({"--nproc-per-node", "2", "--steps", "3", "--seq-len", "16", "--batch-size", "2",
             "--save-every", "0", "--save-dir", dir_.File("out"), "--experiment-name", "first"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("step 3/3"), HasSubstr("next: ranklog sync && ranklog show " +
                                                     RunId(dir_.File("out"), "first") + "\n")));
}

TEST_F(TrainProgramTest, TheReadmesExampleLogsItsSteps) {
  const Finished done = RunToEnd({TRAINER_EXAMPLE}, WithoutDaemon(dir_));
  EXPECT_EQ(done.code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("0 of 200 rows of this rank are durable"));
}

TEST_F(TrainProgramTest, KilledRankEndsJob) {  // S33
  ChildProcess launcher(Command({"--nproc-per-node", "2", "--steps", "100000", "--seq-len", "16",
                                 "--batch-size", "2"}),
                        WithoutDaemon(dir_));
  ASSERT_TRUE(WaitFor([&] { return launcher.Output().find("step 1/") != std::string::npos; }))
      << launcher.Output();
  std::ifstream children("/proc/" + std::to_string(launcher.pid()) + "/task/" +
                         std::to_string(launcher.pid()) + "/children");
  pid_t first = 0, second = 0;
  ASSERT_TRUE(children >> first >> second);
  kill(second, SIGKILL);
  EXPECT_EQ(launcher.Wait(absl::Seconds(30)), 1);
  EXPECT_THAT(launcher.Output(),
              HasSubstr("rank 1 (pid " + std::to_string(second) + ") was killed by signal 9"));
}

// Messages to stderr must not be written to a file or socket of the program.
TEST_F(TrainProgramTest, OpensTheStreamsThatAreClosed) {
  std::vector<std::string> command = {"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh"};
  for (const std::string& word :
       Command({"--steps", "100000", "--seq-len", "16", "--batch-size", "1"}))
    command.push_back(word);
  ChildProcess training(command, WithoutDaemon(dir_));
  const std::string fds = "/proc/" + std::to_string(training.pid()) + "/fd/";
  std::error_code error;
  ASSERT_TRUE(WaitFor([&] {
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path(), error))
      if (entry.is_regular_file(error)) return true;  // the spool
    return false;
  }));
  for (const char* fd : {"0", "1", "2"})
    EXPECT_EQ(std::filesystem::read_symlink(fds + fd, error), "/dev/null") << fd;
}

TEST_F(TrainProgramTest, SurvivesAClosedPipe) {
  std::string command = "(\"$@\"; echo $? > " + dir_.File("code") + ") 2>&1 | head -c 1";
  std::vector<std::string> words = {"sh", "-c", command, "sh"};
  for (const std::string& word :
       Command({"--steps", "5", "--seq-len", "16", "--batch-size", "1", "--save-dir",
                dir_.File("out"), "--experiment-name", "first"}))
    words.push_back(word);
  RunToEnd(words, WithoutDaemon(dir_));
  int code = -1;
  std::ifstream(dir_.File("code")) >> code;
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_.File("out/first/checkpoint-00000005.safetensors")));
}

// A rank that waits for the reader would delay the others, and ignore a stop signal.
TEST_F(TrainProgramTest, TrainsAndStopsWithUnreadOutput) {
  const std::string pipe = dir_.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int unread = open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  while (write(unread, "\n", 1) == 1) continue;
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> words = {"sh", "-c", "exec \"$@\" > " + pipe + " 2>&1", "sh"};
    for (const std::string& word :
         Command({"--nproc-per-node", ranks, "--steps", "100000", "--seq-len", "16", "--batch-size",
                  "2", "--save-every", "1", "--save-dir", dir_.File("out"), "--experiment-name",
                  ranks}))
      words.push_back(word);
    ChildProcess training(words, WithoutDaemon(dir_));
    // Later checkpoints soon replace that of step 20.
    EXPECT_TRUE(WaitFor([&] {
      std::error_code error;
      const std::filesystem::directory_iterator files(dir_.File("out/" + std::string(ranks)),
                                                      error);
      return std::any_of(begin(files), end(files), [](const auto& file) {
        const std::string name = file.path().filename();
        return name.rfind("checkpoint-", 0) == 0 && name >= "checkpoint-00000020";
      });
    })) << ranks;
    training.Signal(SIGTERM);
    EXPECT_EQ(training.Wait(absl::Seconds(20)), 75) << ranks;
  }
  close(unread);
}

TEST_F(TrainProgramTest, StopWithoutCheckpointIsFailure) {
  ChildProcess training(Command({"--steps", "100000", "--seq-len", "16", "--batch-size", "1"}),
                        WithoutDaemon(dir_));
  ASSERT_TRUE(WaitFor([&] { return training.Output().find("step 1/") != std::string::npos; }))
      << training.Output();
  training.Signal(SIGTERM);
  EXPECT_EQ(training.Wait(absl::Seconds(30)), 1);
  EXPECT_THAT(training.Output(), AllOf(HasSubstr("stopped by a signal after step "),
                                       HasSubstr("nothing is saved without --save-dir")));
}

// Otherwise its ranks would continue, and hold the lock on the checkpoints.
TEST_F(TrainProgramTest, RanksDieWithTheirLauncher) {
  ChildProcess launcher(Command({"--nproc-per-node", "2", "--steps", "1000000", "--seq-len", "16",
                                 "--batch-size", "2"}),
                        WithoutDaemon(dir_));
  ASSERT_TRUE(WaitFor([&] { return launcher.Output().find("step 1/") != std::string::npos; }))
      << launcher.Output();
  std::ifstream children("/proc/" + std::to_string(launcher.pid()) + "/task/" +
                         std::to_string(launcher.pid()) + "/children");
  pid_t ranks[2] = {};
  ASSERT_TRUE(children >> ranks[0] >> ranks[1]);
  launcher.Kill();
  for (const pid_t rank : ranks) {
    // A zombie has no memory map.
    const std::string maps = "/proc/" + std::to_string(rank) + "/maps";
    const bool dead = WaitFor([&] { return ranklog::testing::FileContent(maps).empty(); });
    EXPECT_TRUE(dead);
    if (!dead) kill(rank, SIGKILL);
  }
}

TEST_F(TrainProgramTest, NextCommandNamesRank0Run) {
  EXPECT_THAT(Train({"--steps", "1", "--seq-len", "16", "--batch-size", "1", "--val-every", "0",
                     "--save-every", "0", "--save-dir", dir_.File("out"), "--experiment-name",
                     "first", "--log-strategy", "all"})
                  .output,
              HasSubstr("next: ranklog sync && ranklog show " + RunId(dir_.File("out"), "first") +
                        "-0\nas a page: ranklog ui\n"));
}

TEST_F(TrainProgramTest, CtrlCEndsJobWithSigint) {
  ChildProcess launcher(Command({"--nproc-per-node", "2", "--steps", "100000", "--seq-len", "16",
                                 "--batch-size", "2"}),
                        WithoutDaemon(dir_));
  ASSERT_TRUE(WaitFor([&] { return launcher.Output().find("step 1/") != std::string::npos; }))
      << launcher.Output();
  launcher.Signal(SIGINT);
  EXPECT_EQ(launcher.Wait(absl::Seconds(30)), -SIGINT);
  EXPECT_THAT(launcher.Output(), HasSubstr("ended by signal 2"));
}

// A power cut between a checkpoint and its rows would leave a gap in the curve.
TEST_F(TrainProgramTest, ReportsCheckpointRowsNotOnDisk) {
  const Finished done =
      Train({"--steps", "4", "--seq-len", "16", "--batch-size", "2", "--val-every", "0",
             "--save-every", "2", "--save-dir", dir_.File("out"), "--experiment-name", "a"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.output, AllOf(HasSubstr("the rows up to step 2 are only in the spool"),
                                 Not(HasSubstr("the rows up to step 4"))));
}

// The shutdown of the group takes a while.
TEST_F(TrainProgramTest, SignalAfterLastStepIsIgnored) {
  for (const char* ranks : {"1", "2"}) {
    ChildProcess training(Command({"--nproc-per-node", ranks, "--steps", "2", "--seq-len", "16",
                                   "--batch-size", "2", "--val-every", "0"}),
                          WithoutDaemon(dir_));
    ASSERT_TRUE(WaitFor([&] {
      return training.Output().find("next: ranklog sync") != std::string::npos;
    })) << training.Output();
    EXPECT_EQ(WaitUnderSignals(training), 0) << training.Output();
  }
}

TEST_F(TrainProgramTest, SecondSignalWhileStoppingIsIgnored) {
  ChildProcess launcher(
      Command({"--nproc-per-node", "2", "--steps", "100000", "--seq-len", "16", "--batch-size", "2",
               "--save-dir", dir_.File("out"), "--experiment-name", "a"}),
      WithoutDaemon(dir_));
  ASSERT_TRUE(WaitFor([&] { return launcher.Output().find("step 1/") != std::string::npos; }))
      << launcher.Output();
  EXPECT_EQ(WaitUnderSignals(launcher), 75) << launcher.Output();
}

TEST_F(TrainProgramTest, InterruptedTrainingNamesResume) {
  signal(SIGINT, SIG_DFL);  // background jobs of a shell ignore it
  for (const std::string ranks : {"1", "2"}) {
    ChildProcess training(Command({"--nproc-per-node", ranks, "--steps", "100000", "--seq-len",
                                   "16", "--batch-size", "1", "--save-every", "20", "--save-dir",
                                   dir_.File("out"), "--experiment-name", ranks}),
                          WithoutDaemon(dir_));
    std::error_code error;
    EXPECT_TRUE(WaitFor([&] {
      for (const auto& entry :
           std::filesystem::directory_iterator(dir_.File("out/" + ranks), error)) {
        if (entry.path().extension() == ".safetensors") return true;
      }
      return false;
    })) << training.Output();
    training.Signal(SIGINT);
    EXPECT_EQ(training.Wait(absl::Seconds(30)), -SIGINT) << ranks;
    EXPECT_THAT(training.Output(),
                AllOf(HasSubstr("newest checkpoint"), HasSubstr(dir_.File("out/" + ranks)),
                      HasSubstr("run the same command with --resume\n")));
  }
}

TEST_F(TrainProgramTest, LoneRankPrintsOneLine) {
  ChildProcess::Options options = WithoutDaemon(dir_);
  const ranklog::testing::DeadPort port(ranklog::testing::DeadPort::kRefuses);
  const std::map<std::string, std::string> rank = {{"RANK", "1"},
                                                   {"LOCAL_RANK", "1"},
                                                   {"GROUP_RANK", "0"},
                                                   {"WORLD_SIZE", "2"},
                                                   {"LOCAL_WORLD_SIZE", "2"},
                                                   {"OMP_NUM_THREADS", "1"},
                                                   {"MASTER_PORT", std::to_string(port.number())},
                                                   {"MASTER_ADDR", "127.0.0.1"}};
  options.environment.insert(rank.begin(), rank.end());
  const Finished alone = RunToEnd(Command({"--group-timeout", "1"}), options);
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(alone.output, AllOf(HasSubstr("ranklog-train: rank 1: cannot connect to 127.0.0.1:"),
                                  HasSubstr("check that rank 0 runs")));
  EXPECT_EQ(std::count(alone.output.begin(), alone.output.end(), '\n'), 1) << alone.output;
}

// LibTorch for CPUs has no NCCL; LibTorch for GPUs needs a driver. gpu_trials.py tests ranks on
// GPUs.
TEST_F(TrainProgramTest, RankPerGpuNeedsGpus) {
  ChildProcess::Options without_gpus = WithoutDaemon(dir_);
  without_gpus.environment["CUDA_VISIBLE_DEVICES"] = "";
  const Finished none = RunToEnd(Command({"--nproc-per-node", "gpu"}), without_gpus);
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output, StartsWith("ranklog-train: --nproc-per-node gpu: "));
  EXPECT_THAT(none.output, HasSubstr(", or give the number of ranks"));
}

TEST_F(TrainProgramTest, NprocConflictsWithRankEnvironment) {
  ChildProcess::Options options = WithoutDaemon(dir_);
  for (const char* name : {"RANK", "LOCAL_RANK", "GROUP_RANK"}) options.environment[name] = "0";
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) options.environment[name] = "1";
  const Finished refused = RunToEnd(Command({"--nproc-per-node", "2"}), options);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--nproc-per-node"));
}

}  // namespace
}  // namespace ranklog::trainer
