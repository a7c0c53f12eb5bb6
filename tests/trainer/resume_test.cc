// A training that is killed, stopped or restarted, and continues: the real ranklog-train with the
// real ranklogd. Afterwards the log contains the curve of one uninterrupted training. S31, S9.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/interop/torchrun.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/trainer/resuming.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr size_t kNowhere = std::string::npos;

class ResumeRanksTest : public ResumeTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::vector<std::string> With(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--nproc-per-node", GetParam(), "--steps", std::to_string(Steps())});
    return more;
  }
  // Enough for two stops. Three ranks, which start slowly, stop once.
  int64_t Steps() const { return GetParam() == std::string("3") ? 60 : 120; }
};

// It stops in the middle of an epoch, after the end of an epoch, and when val/loss is due.
TEST_P(ResumeRanksTest, LossesMatchUninterruptedTraining) {
  ASSERT_EQ(Train("whole", With({})).code, 0);
  const auto whole = Curve(Runs("whole")[0]["run_id"], Steps());
  ASSERT_THAT(whole, SizeIs(Steps()));
  EXPECT_EQ(Checkpoints("whole"), 3u);

  ChildProcess first(Command("parts", With({"--resume"})), Environment());
  ASSERT_TRUE(WaitFor([&] { return Checkpoints("parts") > 1; })) << first.Output();
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 75) << first.Output();
  EXPECT_THAT(first.Output(), HasSubstr("stopped by a signal"));
  if (Steps() > 60) {
    ChildProcess second(Command("parts", With({"--resume"})), Environment());
    ASSERT_TRUE(WaitFor([&] { return second.Output().find("/120") != std::string::npos; }))
        << second.Output();
    second.Signal(SIGUSR1);
    EXPECT_EQ(second.Wait(), 75) << second.Output();
  }
  const Finished last = Train("parts", With({"--resume"}));
  EXPECT_EQ(last.code, 0) << last.output;
  EXPECT_THAT(last.output, HasSubstr("resuming after step"));
  const std::vector<json> runs = Runs("parts");
  ASSERT_THAT(runs, SizeIs(1));
  ExpectTheWholeCurve(runs[0]["run_id"], whole);
  EXPECT_EQ(runs[0]["replayed_rows"], 0);  // each part ended after its checkpoint
}

INSTANTIATE_TEST_SUITE_P(Ranks, ResumeRanksTest, ::testing::Values("1", "2", "3"),
                         [](const auto& info) { return std::string("Of") + info.param; });

TEST_F(ResumeTest, RunIdIsStoredBeforeFirstRow) {
  node_.daemon().Signal(SIGSTOP);
  ChildProcess training(Command("slow", {}), Environment());
  const auto run_file = [&] {
    std::ifstream file(dir_.File("out/slow/run.json"));
    return json::parse(file, nullptr, /*allow_exceptions=*/false);
  };
  ASSERT_TRUE(WaitFor([&] { return run_file().is_object(); })) << training.Output();
  EXPECT_EQ(run_file()["settled"], false);
  EXPECT_FALSE(WaitFor([&] { return training.Output().find("training tiny") != kNowhere; },
                       absl::Seconds(1)));
  node_.daemon().Signal(SIGCONT);
  ASSERT_TRUE(WaitFor([&] { return training.Output().find("training tiny") != kNowhere; }));
  EXPECT_EQ(run_file()["settled"], true);
}

// As "Stop run" on the run's page does it. Only rank 0 must know of it.
TEST_F(ResumeTest, StopOnTheWebPageSavesAndEndsWithZero) {
  node_.Terminate();
  node_.StartWith({{"RANKLOG_TRANSMIT_INTERVAL", "100ms"}});
  FakeWandb wandb;
  ChildProcess::Options environment = Environment();
  environment.environment["RANKLOG_DESTINATIONS"] = "wandb";
  for (const auto& [name, value] : WandbAt(wandb.url())) environment.environment[name] = value;
  ChildProcess training(
      Command("page", {"--nproc-per-node", "2", "--steps", "100000", "--save-every", "99999"}),
      environment);
  const auto run = [&] {
    const auto runs = wandb.runs();
    return runs.empty() ? FakeWandb::Run() : runs.begin()->second;
  };
  ASSERT_TRUE(WaitFor([&] { return !run().history.empty(); })) << training.Output();
  wandb.Tamper(run().run_id, [](FakeWandb::Run& stopped) { stopped.stopped = true; });
  EXPECT_EQ(training.Wait(absl::Seconds(60)), 0) << training.Output();
  EXPECT_THAT(training.Output(), HasSubstr("stopped on its web page after step "));
  EXPECT_EQ(Checkpoints("page"), 1u);
  ASSERT_TRUE(WaitFor([&] { return run().complete; }));
  EXPECT_EQ(run().exit_code, 0);
  EXPECT_THAT(run().summary, HasSubstr("stopped on its web page after step "));
}

// The training waits for the stopped daemon. So the signal comes before the first step.
TEST_F(ResumeTest, StopBeforeFirstStepAsksForResume) {
  node_.daemon().Signal(SIGSTOP);
  ChildProcess training(Command("early", {}), Environment());
  ASSERT_TRUE(WaitFor([&] { return std::filesystem::exists(dir_.File("out/early/run.json")); }))
      << training.Output();
  training.Signal(SIGTERM);
  node_.daemon().Signal(SIGCONT);
  EXPECT_EQ(training.Wait(), 75) << training.Output();
  EXPECT_THAT(training.Output(),
              HasSubstr("stopped by a signal before its first step; no checkpoint exists yet, the "
                        "same command with --resume starts at step 1\n"));
  EXPECT_EQ(Checkpoints("early"), 0u);
}

TEST_F(ResumeTest, SecondStartKeepsEarlierCheckpoints) {
  ASSERT_EQ(Train("again", {"--steps", "5"}).code, 0);
  const std::string first = Runs("again")[0]["run_id"];
  AwaitEnd(first);
  ChildProcess::Options allowing = Environment();
  allowing.environment["RANKLOG_RESUME"] = "allow";  // for programs without checkpoints
  const Finished second = RunToEnd(Command("again", {"--steps", "10"}), allowing);
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output,
              AllOf(HasSubstr("starting a new training"), HasSubstr("again/earlier-1"),
                    HasSubstr("RANKLOG_RESUME is ignored")));
  ASSERT_THAT(Runs("again"), SizeIs(2));
  EXPECT_EQ(Runs("again")[1]["run_id"], first + "-2");
  EXPECT_THAT(second.output,
              AllOf(HasSubstr("run " + first + "-2: "), HasSubstr("show " + first + "-2\n")));
  EXPECT_TRUE(
      std::filesystem::exists(dir_.File("out/again/earlier-1/checkpoint-00000005.safetensors")));
  // The newer run continues.
  AwaitEnd(first + "-2");
  ASSERT_EQ(Train("again", {"--steps", "15", "--resume"}).code, 0);
  AwaitEnd(first + "-2", /*starts=*/2);
  ASSERT_THAT(Runs("again"), SizeIs(2));
  EXPECT_EQ(Runs("again")[1]["last_step"], 15);
}

// The daemon's notice advises RANKLOG_RESUME, which ranklog-train ignores.
TEST_F(ResumeTest, UnsavedTrainingGetsOwnAdvice) {
  const std::vector<std::string> unsaved = {"--steps", "5", "--save-every", "0", "--resume"};
  ASSERT_EQ(Train("unsaved", unsaved).code, 0);
  AwaitEnd(Runs("unsaved")[0]["run_id"]);
  const Finished second = Train("unsaved", unsaved);
  EXPECT_EQ(second.code, 0);
  EXPECT_THAT(
      second.output,
      AllOf(HasSubstr("-2'. Only --resume from a checkpoint continues a run: see --save-dir "
                      "and --save-every\n"),
            Not(HasSubstr("RANKLOG_RESUME"))));
}

// This node did not see the first start of the job. So the daemon would treat this restart as one
// of the finished run.
TEST_F(ResumeTest, RequeueWithoutResumeLeavesFinishedRun) {
  ASSERT_EQ(Train("requeued", {"--steps", "5"}).code, 0);
  const std::string first = Runs("requeued")[0]["run_id"];
  AwaitEnd(first);
  const json before = Runs("requeued")[0];
  ChildProcess::Options slurm = Environment();
  slurm.environment["SLURM_JOB_ID"] = "77";
  slurm.environment["SLURM_RESTART_COUNT"] = "1";
  const Finished second = RunToEnd(Command("requeued", {"--steps", "10"}), slurm);
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_THAT(second.output, HasSubstr("this start is a new run, " + first + "-"));
  ASSERT_THAT(Runs("requeued"), SizeIs(2));
  for (const char* field : {"state", "last_step", "rows", "replayed_rows"})
    EXPECT_EQ(Runs("requeued")[0][field], before[field]) << field;
}

// Steps 6 to 10 are logged twice: the second time as replays, which replace the first rows.
TEST_F(ResumeTest, SkipsTornCheckpointAndReplaysSteps) {
  ASSERT_EQ(Train("torn", {"--steps", "10"}).code, 0);
  const std::string run_id = Runs("torn")[0]["run_id"];
  const auto whole = Curve(run_id, 10);
  const std::string torn = dir_.File("out/torn/checkpoint-00000010.safetensors");
  std::filesystem::resize_file(torn, 1000);
  const Finished resumed = Train("torn", {"--steps", "10", "--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, AllOf(HasSubstr(torn), HasSubstr("resuming after step 5")));
  AwaitEnd(run_id, /*starts=*/2);
  EXPECT_EQ(Curve(run_id, 10), whole);
  const std::vector<json> runs = Runs("torn");
  ASSERT_THAT(runs, SizeIs(1));
  EXPECT_EQ(runs[0]["replayed_rows"], 5);
}

TEST_F(ResumeTest, NamesWhatDiffersFromTheCheckpoint) {
  ASSERT_EQ(Train("differs", {"--steps", "5"}).code, 0);
  const Finished other = Train("differs", {"--resume", "--nproc-per-node", "2", "--seed", "7"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.output, AllOf(HasSubstr("ranks is 2 and was 1"),
                                  HasSubstr("seed is 7 and was 1"), HasSubstr("--init-from")));
}

TEST_F(ResumeTest, RefusedStartLeavesRunUnchanged) {
  ASSERT_EQ(Train("refused", {"--steps", "5"}).code, 0);
  const std::string run_id = Runs("refused")[0]["run_id"];
  AwaitEnd(run_id);
  const json before = Runs("refused")[0];
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--model", "small"}, {"--project", "zz"}}) {
    std::vector<std::string> arguments = {"--resume", "--steps", "5"};
    arguments.insert(arguments.end(), other.begin(), other.end());
    EXPECT_EQ(Train("refused", arguments).code, 1) << other[0];
  }
  ASSERT_THAT(Runs("refused"), SizeIs(1));
  for (const char* field : {"state", "exit_code", "ended", "rows", "ranks"})
    EXPECT_EQ(Runs("refused")[0][field], before[field]) << field;
}

// The config keeps the two ranks of the first start.
TEST_F(ResumeTest, ACompleteTrainingKeepsItsConfig) {
  const std::vector<std::string> more = {"--steps", "5", "--resume", "--nproc-per-node", "2"};
  ASSERT_EQ(Train("complete", more).code, 0);
  const std::string run_id = Runs("complete")[0]["run_id"];
  AwaitEnd(run_id);
  const auto config = [&] {
    return json::parse(Ranklog({"show", run_id, "--json"}).output)["config"];
  };
  const json before = config();
  EXPECT_EQ(before["nproc_per_node"], 2);
  std::vector<std::string> other = more;
  other.insert(other.end(), {"--lr", "0.5"});
  const Finished again = Train("complete", other);
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output,
              AllOf(HasSubstr("is already at the last step, 5; to continue, give more"),
                    Not(HasSubstr("changed since")), Not(HasSubstr("training tiny"))));
  AwaitEnd(run_id, /*starts=*/2);
  EXPECT_EQ(config(), before);
}

TEST_F(ResumeTest, CopyOfCompleteTrainingHasConfig) {
  ASSERT_EQ(Train("original", {"--steps", "5"}).code, 0);
  std::filesystem::copy(dir_.File("out/original"), dir_.File("out/copy"));
  ASSERT_EQ(Train("copy", {"--steps", "5", "--resume"}).code, 0);
  ASSERT_THAT(Runs("copy"), SizeIs(1));
  const std::string run_id = Runs("copy")[0]["run_id"];
  AwaitEnd(run_id);
  EXPECT_EQ(json::parse(Ranklog({"show", run_id, "--json"}).output)["config"]["steps"], 5);
}

// The daemon shows exit code 75 as a failure.
TEST_F(ResumeTest, SummaryHasTrainingState) {
  const auto state = [&] {
    const std::string run_id = Runs("state")[0]["run_id"];
    return json::parse(Ranklog({"show", run_id, "--json"}).output)["summary"]["training"];
  };
  ChildProcess first(Command("state", {"--steps", "100000"}), Environment());
  ASSERT_TRUE(WaitFor([&] { return Checkpoints("state") > 0; })) << first.Output();
  EXPECT_TRUE(WaitFor([&] { return state() == "not complete"; })) << state();
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 75) << first.Output();
  AwaitEnd(Runs("state")[0]["run_id"]);
  EXPECT_THAT(state().get<std::string>(), AllOf(HasSubstr("stopped by a signal after step "),
                                                HasSubstr(" of 100000; --resume continues it")));
}

TEST_F(ResumeTest, NewTrainingStartsFromCheckpointWeights) {
  ASSERT_EQ(Train("first", {}).code, 0);
  const std::string file = dir_.File("out/first/checkpoint-00000060.safetensors");
  ASSERT_EQ(Train("next", {"--init-from", file, "--steps", "2", "--val-every", "1"}).code, 0);
  const auto loss = [&](const std::string& name, int64_t step) {
    const std::string text = Curve(Runs(name)[0]["run_id"], name == "next" ? 2 : 60)[step];
    return std::stod(text.substr(text.find("train/loss=") + 11));
  };
  EXPECT_LT(loss("next", 1), loss("first", 1) - 1);
  EXPECT_EQ(Train("none", {"--init-from", text_}).code, 1);
}

class ResumeTorchrunTest : public ResumeTest {
 protected:
  // Starts two ranks of the program that is appended.
  std::vector<std::string> Agent(std::vector<std::string> more) const {
    const std::vector<std::string> alone = Standalone();
    more.insert(more.end(), alone.begin(), alone.end());
    more.insert(more.end(), {"--nproc_per_node", "2"});
    return Torchrun(dir_.File("logs"), more);
  }
};

TEST_F(ResumeTorchrunTest, RestartsItFromItsCheckpoint) {
  SKIP_WITHOUT(InPath("torchrun"), "torchrun (package python3-torch)");
  ASSERT_EQ(Train("whole", {"--nproc-per-node", "2"}).code, 0);
  const auto whole = Curve(Runs("whole")[0]["run_id"]);
  std::vector<std::string> command = Agent({"--max_restarts", "1"});
  for (const std::string& argument : Command("elastic", {"--resume"})) command.push_back(argument);
  ChildProcess agent(command, Environment());
  ASSERT_TRUE(WaitFor([&] { return Checkpoints("elastic") > 1; })) << agent.Output();
  std::ifstream children("/proc/" + std::to_string(agent.pid()) + "/task/" +
                         std::to_string(agent.pid()) + "/children");
  for (pid_t child = 0; children >> child;) {
    std::ifstream comm("/proc/" + std::to_string(child) + "/comm");
    std::string name;
    if (comm >> name && name == "ranklog-train") {
      kill(child, SIGKILL);
      break;
    }
  }
  EXPECT_EQ(agent.Wait(absl::Seconds(60)), 0) << agent.Output();
  EXPECT_THAT(agent.Output(), HasSubstr("resuming after step"));
  ASSERT_THAT(Runs("elastic"), SizeIs(1));
  ExpectTheWholeCurve(Runs("elastic")[0]["run_id"], whole);
}

TEST_F(ResumeTorchrunTest, ReportsRankError) {  // S33
  SKIP_WITHOUT(InPath("torchrun"), "torchrun (package python3-torch)");
  std::vector<std::string> command = Agent({});
  std::ofstream(dir_.File("out")) << "a file where the directory is to be";
  for (const std::string& argument : Command("error", {})) command.push_back(argument);
  const Finished run = RunToEnd(command, Environment());
  EXPECT_EQ(run.code, 1);
  // Above its report are the messages of the ranks on stderr, with the same reason.
  const size_t report = run.output.find("Root Cause (first observed failure)");
  ASSERT_NE(report, kNowhere) << run.output;
  EXPECT_THAT(run.output.substr(report),
              AllOf(HasSubstr("error_file: " + dir_.File("logs") + "/"),
                    ContainsRegex("traceback *: rank 0: cannot create " + dir_.File("out"))));
}

}  // namespace
}  // namespace ranklog::testing
