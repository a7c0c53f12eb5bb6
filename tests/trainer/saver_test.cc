// The start of a training. resume_test.cc runs the whole program.

#include "trainer/saver.h"

#include <ATen/ATen.h>
#include <stdlib.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "trainer/base/rank_error.h"
#include "trainer/run_log.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class SaverTest : public ::testing::Test {
 protected:
  SaverTest() {
    options_.save_dir = dir_.path();
    options_.experiment_name = "a";
    options_.resume = true;
    model_->forward(at::ones({1, 2})).sum().backward();
    optimizer_.step();
  }
  absl::StatusOr<Saver> Open(ProcessGroup& group) {
    return Saver::Open(options_, plan_, fingerprint_, group);
  }
  absl::StatusOr<int64_t> Restore(Saver& saver) {
    return saver.Restore(*model_, optimizer_, sampler_);
  }
  // The output of Open() without other ranks. Its status is in status_.
  std::string OutputOfOpen() {
    ProcessGroup alone = ProcessGroup::Alone();
    ::testing::internal::CaptureStderr();
    status_ = Open(alone).status();
    return ::testing::internal::GetCapturedStderr();
  }
  // The requested run of a start; "=" before the id of a continued run. The daemon, if one answers,
  // returns `given` ("": the requested id).
  std::string RunOfStart(bool resume, const std::string& experiment = "a",
                         const std::optional<std::string>& given = "") {
    options_.resume = resume;
    options_.experiment_name = experiment;
    ProcessGroup alone = ProcessGroup::Alone();
    absl::StatusOr<Saver> saver = Open(alone);
    status_ = saver.status();
    if (!saver.ok()) return "none";
    Settings settings;
    settings.resume = "allow";  // RANKLOG_RESUME is for other programs
    saver->ContinueRun(settings);
    if (given) saver->SettleRun(given->empty() ? settings.run_id : *given);
    return (settings.resume == "allow" ? "=" : settings.resume) + settings.run_id;
  }
  std::string FirstId(const std::string& experiment = "a") const {
    return RunId(dir_.path(), experiment);
  }
  void Copy(const std::string& from, const std::string& to) const {
    std::filesystem::copy(dir_.File(from), dir_.File(to), std::filesystem::copy_options::recursive);
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(dir_.File(name)); }
  // Saves a training of one rank after 7 steps.
  void SaveAfterSeven(double train_loss = std::numeric_limits<double>::quiet_NaN(),
                      const std::string& run_id = "run") {
    ProcessGroup alone = ProcessGroup::Alone();
    ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
    ASSERT_OK(Restore(saver).status());
    Checkpoint checkpoint{
        .run_id = run_id, .step = 7, .train_loss = train_loss, .sampler = {.epoch = 1, .next = 2}};
    AddState(*model_, optimizer_, checkpoint);
    saver.Save(std::move(checkpoint), /*last=*/true);
  }
  static at::Tensor RandomStateOf(uint64_t seed) {
    at::manual_seed(seed);
    return RandomState(at::kCPU);
  }

  const ranklog::testing::TempDir dir_;
  const std::string file_ = dir_.File("a/checkpoint-00000007.safetensors");
  Options options_;
  Plan plan_{.steps = 10, .save_every = 5};
  Fingerprint fingerprint_;
  absl::Status status_;
  torch::nn::Linear model_{2, 2};
  torch::optim::AdamW optimizer_{model_->parameters()};
  EpochSampler sampler_{{.size = 8}};
};

TEST_F(SaverTest, EachRankRestoresOwnRandomState) {
  SaveAfterSeven();
  ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint, ReadCheckpoint(file_));
  checkpoint.random = at::stack({RandomStateOf(11), RandomStateOf(22)});
  ASSERT_OK(WriteCheckpoint(file_, checkpoint));

  setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  ASSERT_OK_AND_ASSIGN(const HostedStore store, HostedStore::Serve());
  const auto join = [&](int rank) {
    return ProcessGroup::Join({.rank = rank,
                               .world_size = 2,
                               .address = "127.0.0.1",
                               .port = store.port(),
                               .hosted = true});
  };
  auto other = std::async(std::launch::async, join, 1);
  ASSERT_OK_AND_ASSIGN(ProcessGroup first, join(0));
  ASSERT_OK_AND_ASSIGN(ProcessGroup second, other.get());
  auto others = std::async(std::launch::async, [&] { return Open(second); });
  std::vector<absl::StatusOr<Saver>> savers;
  savers.push_back(Open(first));
  savers.push_back(others.get());
  for (const ProcessGroup* group : {&first, &second}) {
    ASSERT_OK_AND_ASSIGN(Saver saver, std::move(savers[group->rank()]));
    ASSERT_OK_AND_ASSIGN(const int64_t step, Restore(saver));
    EXPECT_EQ(step, 7);
    EXPECT_EQ(sampler_.position(), (SamplerPosition{.epoch = 1, .next = 2}));
    EXPECT_TRUE(RandomState(at::kCPU).equal(RandomStateOf(group->rank() == 0 ? 11 : 22)));
  }
}

TEST_F(SaverTest, WarnsOfLossAboveEarlierCheckpoints) {
  SaveAfterSeven(/*train_loss=*/2.5);
  EXPECT_EQ(ReadTrainLoss(file_), 2.5);
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  ASSERT_OK(Restore(saver).status());
  ::testing::internal::CaptureStderr();
  saver.CheckNumbers(/*step=*/8, /*loss=*/4.4, /*grad_norm=*/1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  saver.CheckNumbers(8, 9e7, 1);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("the train loss of step 8 is 9e+07, far above the expected 2.5"),
            HasSubstr("stop, and start a new experiment"), HasSubstr("--init-from " + file_)));
  Checkpoint checkpoint{.step = 10, .train_loss = 9e7};
  AddState(*model_, optimizer_, checkpoint);
  ::testing::internal::CaptureStderr();
  saver.Save(std::move(checkpoint), /*last=*/true);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");  // once is enough
}

// The mean loss of a few tokens is noise.
TEST_F(SaverTest, SmallBatchNoiseIsNoRise) {
  options_.batch_size = 1;
  options_.seq_len = 16;
  SaveAfterSeven(/*train_loss=*/1.5);
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  ASSERT_OK(Restore(saver).status());
  ::testing::internal::CaptureStderr();
  saver.CheckNumbers(/*step=*/8, /*loss=*/6.5, /*grad_norm=*/1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  saver.CheckNumbers(8, 15, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("far above the expected 1.5"));
}

TEST_F(SaverTest, WarnsOfRisenLossAtSave) {
  SaveAfterSeven(/*train_loss=*/2.5);
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  ASSERT_OK(Restore(saver).status());
  saver.CheckNumbers(8, 2.5, 1);
  Checkpoint checkpoint{.step = 10, .train_loss = 9e7};
  AddState(*model_, optimizer_, checkpoint);
  ::testing::internal::CaptureStderr();
  saver.Save(std::move(checkpoint), /*last=*/true);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the train loss of step 10 is 9e+07, far above the expected 2.5"));
}

// The loss of this checkpoint has risen, too.
TEST_F(SaverTest, WarnsOfWeightsWorseThanGuess) {
  fingerprint_["vocabulary"] = "256";
  SaveAfterSeven(/*train_loss=*/1e6);
  options_.experiment_name = "b";
  options_.resume = false;
  options_.init_from = file_;
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  ::testing::internal::CaptureStderr();
  saver.CheckNumbers(1, 7.6, 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("is 7.6, far above the expected 5.55"),
                    HasSubstr("take an older checkpoint than " + file_)));
}

// A full disk has no room for one more checkpoint, or for run.json.
TEST_F(SaverTest, ResumeRemovesOldCheckpointsFirst) {
  SaveAfterSeven();
  std::filesystem::copy(file_, dir_.File("a/checkpoint-00000005.safetensors"));
  plan_.save_every = 0;
  OutputOfOpen();
  EXPECT_TRUE(Exists("a/checkpoint-00000005.safetensors"));
  plan_.save_every = 5;
  options_.keep = 1;
  std::filesystem::create_symlink("/dev/full", dir_.File("a/run.json.tmp"));
  OutputOfOpen();
  EXPECT_THAT(status_.message(),
              AllOf(HasSubstr("run.json.tmp: No space left on device; free space there"),
                    Not(HasSubstr("--keep"))));  // it is 1 already
  EXPECT_FALSE(Exists("a/checkpoint-00000005.safetensors"));
  EXPECT_TRUE(Exists("a/checkpoint-00000007.safetensors"));
}

// A directory has the name of the file.
TEST_F(SaverTest, OnlyLastSaveMustSucceed) {
  std::filesystem::create_directories(file_ + ".tmp/in the way");
  EXPECT_THROW(SaveAfterSeven(), std::runtime_error);
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  ASSERT_OK(Restore(saver).status());
  Checkpoint checkpoint{.step = 7};
  AddState(*model_, optimizer_, checkpoint);
  ::testing::internal::CaptureStderr();
  saver.Save(std::move(checkpoint), /*last=*/false);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("cannot save the checkpoint of step 7: "), HasSubstr(file_),
                    HasSubstr("no checkpoint exists yet"), HasSubstr("Training continues")));
}

TEST_F(SaverTest, FullDiskErrorNamesRemedy) {
  SaveAfterSeven();
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  ASSERT_OK(Restore(saver).status());
  std::filesystem::create_symlink("/dev/full", dir_.File("a/checkpoint-00000010.safetensors.tmp"));
  Checkpoint checkpoint{.step = 10};
  AddState(*model_, optimizer_, checkpoint);
  try {
    saver.Save(std::move(checkpoint), /*last=*/true);
    FAIL() << "it was written";
  } catch (const RankError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("No space left on device"),
                                    HasSubstr("free space there, or resume with a smaller --keep; "
                                              "the newest checkpoint is of step 7")));
  }
}

TEST_F(SaverTest, FailedLastSaveNamesNewestCheckpoint) {
  SaveAfterSeven();
  std::filesystem::create_directories(dir_.File("a/checkpoint-00000010.safetensors.tmp/in"));
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  ASSERT_OK(Restore(saver).status());
  Checkpoint checkpoint{.step = 10};
  AddState(*model_, optimizer_, checkpoint);
  try {
    saver.Save(std::move(checkpoint), /*last=*/true);
    FAIL() << "it was written";
  } catch (const RankError& error) {
    EXPECT_EQ(error.cause(), RankError::kThisRank);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cannot save the checkpoint of step 10: "),
                                    HasSubstr("the newest checkpoint is of step 7")));
  }
}

TEST_F(SaverTest, NamesFileInDirectoryPlace) {
  std::ofstream(dir_.File("own.txt")) << "text";
  options_.save_dir = dir_.File("own.txt");
  OutputOfOpen();
  EXPECT_THAT(status_.message(),
              HasSubstr(dir_.File("own.txt") + ": Not a directory; choose another --save-dir"));
}

// A refused start changes nothing.
TEST_F(SaverTest, RefusedStartMovesNothing) {
  SaveAfterSeven();
  options_.resume = false;
  options_.init_from = dir_.File("none");
  OutputOfOpen();
  EXPECT_THAT(status_.message(), HasSubstr("; give --init-from another checkpoint"));
  options_.init_from = dir_.path();
  OutputOfOpen();
  EXPECT_EQ(status_.message(), "cannot read " + dir_.path() +
                                   ": it is a directory; give --init-from another checkpoint file");
  fingerprint_ = FingerprintOf({}, Settings(), plan_, Corpus(), 1);
  options_.init_from = file_;
  ASSERT_OK_AND_ASSIGN(Checkpoint checkpoint, ReadCheckpoint(file_));
  checkpoint.options = fingerprint_;
  checkpoint.options["model"] = "small";
  ASSERT_OK(WriteCheckpoint(file_, checkpoint));
  OutputOfOpen();
  EXPECT_THAT(status_.message(), HasSubstr("model is tiny and was small"));
  EXPECT_TRUE(Exists("a/checkpoint-00000007.safetensors"));
  EXPECT_FALSE(Exists("a/earlier-1"));
}

TEST_F(SaverTest, ReportsNewPathOfInitFrom) {
  SaveAfterSeven();
  options_.resume = false;
  options_.init_from = file_;
  EXPECT_THAT(OutputOfOpen(), AllOf(HasSubstr("starting a new training"),
                                    HasSubstr("the file of --init-from is now " +
                                              dir_.File("a/earlier-1/checkpoint-00000007."))));
  EXPECT_OK(status_);
  EXPECT_TRUE(Exists("a/earlier-1/checkpoint-00000007.safetensors"));
}

TEST_F(SaverTest, UnsavedTrainingMovesOldCheckpointsAside) {
  SaveAfterSeven();
  options_.resume = false;
  plan_.save_every = 0;
  OutputOfOpen();
  EXPECT_OK(status_);
  EXPECT_TRUE(Exists("a/earlier-1/checkpoint-00000007.safetensors"));
  options_.experiment_name = "never";
  OutputOfOpen();
  EXPECT_OK(status_);
  EXPECT_FALSE(Exists("never"));
}

TEST_F(SaverTest, UnsavedTrainingStillResumes) {
  SaveAfterSeven();
  plan_.save_every = 0;
  ProcessGroup alone = ProcessGroup::Alone();
  ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
  EXPECT_THAT(Restore(saver), IsOkAndHolds(7));
  EXPECT_FALSE(saver.Due(8, 8));
}

TEST_F(SaverTest, ReportsStartPosition) {
  EXPECT_THAT(OutputOfOpen(),
              HasSubstr("no checkpoint in " + dir_.File("a") + "; starting at step 1"));
  SaveAfterSeven();
  EXPECT_THAT(OutputOfOpen(), HasSubstr("resuming after step 7"));
  plan_.steps = 7;
  EXPECT_THAT(OutputOfOpen(), HasSubstr("is already at the last step, 7"));
  EXPECT_OK(status_);
  plan_.steps = 6;
  OutputOfOpen();
  EXPECT_THAT(status_.message(), HasSubstr("is of step 7"));
}

TEST_F(SaverTest, OnlyResumeContinuesRun) {
  EXPECT_EQ(RunOfStart(/*resume=*/true), FirstId());
  EXPECT_EQ(RunOfStart(/*resume=*/true), "=" + FirstId());  // killed before its first checkpoint
  EXPECT_EQ(RunOfStart(/*resume=*/false), FirstId() + "-2");
  options_.resume = true;
  SaveAfterSeven();
  EXPECT_EQ(RunOfStart(/*resume=*/false), FirstId() + "-3");
  EXPECT_EQ(RunOfStart(/*resume=*/true), "=" + FirstId() + "-3");
  EXPECT_EQ(RunOfStart(/*resume=*/true), "=" + FirstId() + "-3");
}

TEST_F(SaverTest, ReportsIgnoredVariables) {
  const auto start = [&](const char* resume, const char* run_id) {
    setenv("RANKLOG_RESUME", resume, 1);
    setenv("RANKLOG_RUN_ID", run_id, 1);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(RunOfStart(/*resume=*/true, run_id), FirstId(run_id));
    unsetenv("RANKLOG_RESUME");
    unsetenv("RANKLOG_RUN_ID");
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(start("allow\n", "theirs"),
              AllOf(HasSubstr("RANKLOG_RESUME is ignored: --resume"),
                    HasSubstr("RANKLOG_RUN_ID is ignored: the run of this --save-dir and "
                              "--experiment-name is " +
                              FirstId("theirs") + "\n")));
  EXPECT_THAT(start(" \n", " "), Not(HasSubstr("is ignored")));
}

// The daemon's rule for requeued jobs would continue a run of another job.
TEST_F(SaverTest, RequeueWithoutResumeIsNewRun) {
  setenv("SLURM_JOB_ID", "77", 1);
  setenv("SLURM_RESTART_COUNT", "2", 1);
  const std::string first = RunOfStart(/*resume=*/true);
  EXPECT_THAT(first, MatchesRegex(FirstId() + "-[0-9a-f]{8}"));
  EXPECT_EQ(RunOfStart(/*resume=*/true), "=" + first);
  const std::string second = RunOfStart(/*resume=*/false);
  EXPECT_THAT(second, MatchesRegex(FirstId() + "-[0-9a-f]{8}"));
  EXPECT_NE(second, first);
  plan_.save_every = 0;
  EXPECT_THAT(RunOfStart(/*resume=*/false, "unsaved"),
              MatchesRegex(FirstId("unsaved") + "-[0-9a-f]{8}"));
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_RESTART_COUNT");
}

// The daemon has runs of a directory that no longer exists.
TEST_F(SaverTest, NewRunIdExceedsAssignedId) {
  RunOfStart(/*resume=*/false, "a", FirstId() + "-2");
  EXPECT_EQ(RunOfStart(/*resume=*/false, "a", FirstId() + "-3-2"), FirstId() + "-3");
  EXPECT_EQ(RunOfStart(/*resume=*/false), FirstId() + "-4");
}

// The requested id may be that of another training's run.
TEST_F(SaverTest, UnconfirmedRunIsNotContinued) {
  EXPECT_EQ(RunOfStart(/*resume=*/false, "a", std::nullopt), FirstId());
  const std::string second = RunOfStart(/*resume=*/true, "a", std::nullopt);
  EXPECT_THAT(second, MatchesRegex(FirstId() + "-[0-9a-f]{8}"));
  EXPECT_EQ(RunOfStart(/*resume=*/true, "a", std::nullopt), "=" + second);
}

// It is killed before it saves, so the checkpoint names the run that no daemon confirmed.
TEST_F(SaverTest, UnconfirmedCheckpointContinuesInNewRun) {
  SaveAfterSeven(std::numeric_limits<double>::quiet_NaN(), FirstId());
  EXPECT_THAT(OutputOfOpen(), AllOf(HasSubstr("resuming after step 7"),
                                    HasSubstr("this start is a new run, " + FirstId() + "-"),
                                    HasSubstr(": no daemon has answered the earlier one")));
  EXPECT_THAT(RunOfStart(/*resume=*/true), MatchesRegex("=" + FirstId() + "-[0-9a-f]{8}"));
}

TEST_F(SaverTest, UnsavedTrainingNeverContinuesRun) {
  plan_.save_every = 0;
  for (int start = 0; start < 2; ++start) EXPECT_EQ(RunOfStart(/*resume=*/true), FirstId());
}

TEST_F(SaverTest, CopyContinuesInItsOwnRun) {
  SaveAfterSeven();
  Copy("a", "b");
  options_.experiment_name = "b";
  EXPECT_THAT(OutputOfOpen(), AllOf(HasSubstr(dir_.File("b") + " is a copy of " + dir_.File("a")),
                                    HasSubstr("resuming after step 7")));
  const std::string own = RunOfStart(/*resume=*/true, "b");  // no daemon had answered
  EXPECT_THAT(own, MatchesRegex(FirstId("b") + "-[0-9a-f]{8}"));
  EXPECT_EQ(RunOfStart(/*resume=*/true, "b"), "=" + own);  // killed before it saved
  EXPECT_EQ(RunOfStart(/*resume=*/true, "a"), "=run");
  std::filesystem::create_directory(dir_.File("c"));
  std::filesystem::copy(file_, dir_.File("c"));
  EXPECT_EQ(RunOfStart(/*resume=*/true, "c"), FirstId("c"));
}

TEST_F(SaverTest, CopyIsDetectedAfterOriginalRestarts) {
  SaveAfterSeven();
  Copy("a", "b");
  EXPECT_EQ(RunOfStart(/*resume=*/false, "a"), FirstId() + "-2");
  EXPECT_EQ(RunOfStart(/*resume=*/true, "b"), FirstId("b"));
}

// The daemon got a request for the same id, and returned another one.
TEST_F(SaverTest, MovedRunSurvivesPathReuse) {
  EXPECT_EQ(RunOfStart(/*resume=*/false, "a"), FirstId());
  std::filesystem::rename(dir_.File("a"), dir_.File("moved"));
  EXPECT_EQ(RunOfStart(/*resume=*/false, "a", FirstId() + "-2"), FirstId());
  EXPECT_EQ(RunOfStart(/*resume=*/true, "moved"), "=" + FirstId());
  EXPECT_EQ(RunOfStart(/*resume=*/true, "a"), "=" + FirstId() + "-2");
}

TEST_F(SaverTest, MovedOrLinkedDirectoryKeepsRun) {
  SaveAfterSeven();
  std::filesystem::create_directory_symlink(dir_.File("a"), dir_.File("link"));
  EXPECT_EQ(RunOfStart(/*resume=*/true, "link"), "=run");
  std::filesystem::rename(dir_.File("a"), dir_.File("moved"));
  EXPECT_EQ(RunOfStart(/*resume=*/true, "moved"), "=run");
}

// The daemon answered after the checkpoint was written, and returned another id.
TEST_F(SaverTest, ContinuesRunAssignedByDaemon) {
  ProcessGroup alone = ProcessGroup::Alone();
  {
    ASSERT_OK_AND_ASSIGN(Saver saver, Open(alone));
    ASSERT_OK(Restore(saver).status());
    Checkpoint checkpoint{.run_id = FirstId(), .step = 7};
    AddState(*model_, optimizer_, checkpoint);
    EXPECT_FALSE(saver.has_checkpoint());
    saver.Save(std::move(checkpoint), /*last=*/true);
    EXPECT_TRUE(saver.has_checkpoint());
    saver.SettleRun("given");
  }
  EXPECT_EQ(RunOfStart(/*resume=*/true), "=given");
}

TEST_F(SaverTest, DamagedRunFileIsTolerated) {
  SaveAfterSeven();
  std::filesystem::remove(dir_.File("a/run.json"));
  std::filesystem::create_symlink("run.json", dir_.File("a/run.json"));
  EXPECT_THAT(OutputOfOpen(), HasSubstr("ignoring run.json: cannot open"));
  std::filesystem::remove(dir_.File("a/run.json"));
  std::ofstream(dir_.File("a/run.json")) << "{}";
  EXPECT_THAT(OutputOfOpen(), HasSubstr("ignoring run.json: cannot read " +
                                        dir_.File("a/run.json: it is damaged; remove it")));
  EXPECT_EQ(RunOfStart(/*resume=*/true), "=run");
}

// Two ranks, each with its own options.
TEST_F(SaverTest, DifferentlyStartedRanksFailTogether) {
  setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  ASSERT_OK_AND_ASSIGN(const HostedStore store, HostedStore::Serve());
  const auto check = [&](int rank) -> std::string {
    absl::StatusOr<ProcessGroup> group = ProcessGroup::Join({.rank = rank,
                                                             .world_size = 2,
                                                             .address = "127.0.0.1",
                                                             .port = store.port(),
                                                             .hosted = true});
    if (!group.ok()) return std::string(group.status().message());
    Options options;
    options.lr = rank == 0 ? 0.25 : 0.5;
    options.resume = rank == 0;
    try {
      CheckRanksAgree(options, FingerprintOf(options, Settings(), plan_, Corpus(), 2), *group);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "they agree";
  };
  auto second = std::async(std::launch::async, check, 1);
  EXPECT_EQ(
      check(0),
      "the ranks were started with different options or data; see the message of the rank that "
      "differs");
  EXPECT_THAT(second.get(), AllOf(HasSubstr("lr is 0.5 on rank 1 and 0.25 on rank 0"),
                                  HasSubstr("resume is false on rank 1 and true on rank 0")));
}

}  // namespace
}  // namespace ranklog::trainer
