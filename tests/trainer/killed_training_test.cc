// A training whose processes are all killed, again and again, has the log of one that was not. S31.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/figures.h"
#include "tests/trainer/resuming.h"

namespace ranklog::testing {
namespace {

using ::testing::SizeIs;

enum class When { kInSteps, kInStart };

class KilledTrainingTest : public ResumeTest, public ::testing::WithParamInterface<When> {};

TEST_P(KilledTrainingTest, KeepsItsCurve) {
  const std::vector<std::string> command = {"--nproc-per-node", "2", "--resume", "--steps", "120",
                                            "--save-every",     "10"};
  ASSERT_EQ(Train("whole", command).code, 0);
  const auto whole = Curve(Runs("whole")[0]["run_id"], 120);
  const bool in_steps = GetParam() == When::kInSteps;
  const int kills = getenv("RANKLOG_SOAK") != nullptr ? 20 : 5;
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int killed_in_steps = 0;
  for (int kill = 0; kill < kills; ++kill) {
    ChildProcess training(Command("killed", command), Environment());
    const auto printed = [&](const char* text) {
      return training.Output().find(text) != std::string::npos;
    };
    if (in_steps) {
      ASSERT_TRUE(WaitFor([&] { return printed("\nstep "); })) << training.Output();
    }
    training.Wait(absl::Milliseconds(random() % (in_steps ? 150 : 400)));
    killed_in_steps += printed("\nstep ") && !printed("step 120/120");
    training.Kill();  // the ranks die with their launcher
  }
  const Finished last = Train("killed", command);
  ASSERT_EQ(last.code, 0) << last.output;
  std::vector<json> runs = Runs("killed");
  // A start that was killed before its run's id was in run.json has logged no row to that run.
  std::erase_if(runs, [](const json& run) { return run["rows"] == 0; });
  ASSERT_THAT(runs, SizeIs(1));
  ExpectTheWholeCurve(runs[0]["run_id"], whole);
  if (in_steps) {
    EXPECT_GE(killed_in_steps, 3);
    EXPECT_GT(runs[0]["replayed_rows"], 0);  // of the steps between a checkpoint and a kill
  }
  Report(in_steps ? "trainings killed in their steps" : "trainings killed in their start", kills,
         "");
}

INSTANTIATE_TEST_SUITE_P(Killed, KilledTrainingTest,
                         ::testing::Values(When::kInSteps, When::kInStart), [](const auto& info) {
                           return info.param == When::kInSteps ? "InSteps" : "InStart";
                         });

}  // namespace
}  // namespace ranklog::testing
