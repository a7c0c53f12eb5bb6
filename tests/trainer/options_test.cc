#include "trainer/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ranklog::trainer {
namespace {

std::variant<Options, int> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ranklog-train");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

TEST(ParseCommandLineTest, DerivesDefaultsFromWhatIsGiven) {
  const auto options = std::get<Options>(Parse({"--model", "small", "--steps", "50"}));
  EXPECT_DOUBLE_EQ(options.lr, 1e-3);
  EXPECT_DOUBLE_EQ(options.min_lr, 1e-4);
  EXPECT_FALSE(options.warmup_steps.has_value());
  EXPECT_FALSE(options.project.has_value());
  EXPECT_FALSE(options.log_strategy.has_value());
}

TEST(ParseCommandLineTest, WhatIsGivenIsKept) {  // S9
  const auto options = std::get<Options>(
      Parse({"--lr", "0.5", "--min-lr", "0", "--warmup-steps", "0", "--log-strategy", "all",
             "--group", "g", "--project", "p", "--nproc-per-node=3"}));
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.min_lr, 0);
  EXPECT_EQ(options.warmup_steps, 0);
  EXPECT_EQ(options.log_strategy, LogStrategy::kAll);
  EXPECT_EQ(options.group, "g");
  EXPECT_EQ(options.project, "p");
  EXPECT_EQ(options.nproc_per_node, 3);
}

TEST(ParseCommandLineTest, GpuCountSetsRanks) {
  EXPECT_EQ(std::get<Options>(Parse({"--nproc-per-node", "gpu"})).nproc_per_node, 0);
  EXPECT_EQ(std::get<Options>(Parse({})).nproc_per_node, 1);
  EXPECT_EQ(std::get<Options>(Parse({"--nproc-per-node", "2"})).nproc_per_node, 2);
}

TEST(ParseCommandLineTest, LogEveryZeroIsAllowed) {
  EXPECT_EQ(std::get<Options>(Parse({"--log-every", "0"})).log_every, 0);
}

TEST(ParseCommandLineTest, CkptEveryIsSaveEvery) {
  for (const char* flag : {"--save-every", "--ckpt-every"}) {
    const auto saving = Parse({flag, "7", "--save-dir", "out", "--experiment-name", "a"});
    EXPECT_EQ(std::get<Options>(saving).save_every, 7);
  }
  EXPECT_EQ(std::get<Options>(Parse({"--save-every", "0"})).save_every, 0);
}

TEST(ParseCommandLineTest, HelpAndVersionAreDone) {
  EXPECT_EQ(std::get<int>(Parse({"--help"})), 0);
  EXPECT_EQ(std::get<int>(Parse({"--version"})), 0);
}

TEST(ParseCommandLineTest, WrongOptionsNameValidValues) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> wrong = {
      {{"--step", "5"}, "unknown option --step; did you mean --steps?"},
      {{"--nproc_per_node=2"}, "unknown option --nproc_per_node; did you mean --nproc-per-node?"},
      {{"--xyz", "5"}, "unknown option --xyz; see"},
      {{"--lr", "abc"}, "--lr: abc is not a number"},
      {{"--lr", "nan"}, "--lr: nan is not a number"},
      {{"--steps", "1e3"}, "--steps: 1e3 is not a whole decimal number"},
      {{"--nproc-per-node", "two"}, "two is not a number from 1 to 1024, or gpu"},
      {{"--steps"}, "--steps needs a value"},
      {{"--lr", "1e-3", "--min-lr", "1e-2"}, "--min-lr 0.01 is above --lr 0.001"},
      {{"--model", "gpt2", "--min-lr", "1e-3"}, "--min-lr 0.001 is above --lr 0.0006"},
      {{"--save-dir", "", "--experiment-name", ""}, "--experiment-name are empty"}};
  for (const auto& [arguments, error] : wrong) {
    ::testing::internal::CaptureStderr();
    const std::variant<Options, int> refused = Parse(arguments);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr(error));
    EXPECT_EQ(std::get<int>(refused), 2) << error;
  }
}

TEST(ParseCommandLineTest, WrongUsageExitsWithTwo) {
  const std::vector<std::vector<const char*>> wrong = {{"--no-such-flag"},
                                                       {"stray"},
                                                       {"--steps", "0"},
                                                       {"--steps", "many"},
                                                       {"--model", "huge"},
                                                       {"--comm", "mpi"},
                                                       {"--seq-len", "0"},
                                                       {"--batch-size", "-1"},
                                                       {"--lr", "-1"},
                                                       {"--nproc-per-node", "0"},
                                                       {"--nproc-per-node", "2x"},
                                                       {"--nproc-per-node", "cpu"},
                                                       {"--save-dir", "x"},
                                                       {"--data=", "--resume"},
                                                       {"--save-every", "7"},
                                                       {"--ckpt-every", "7"},
                                                       {"--keep", "2"},
                                                       {"--resume"},
                                                       {"--log-every", "-1"},
                                                       {"--dtype", "int8"},
                                                       {"--log-strategy", "some"},
                                                       {"--pad-vocab", "0"},
                                                       {"--steps", "5", "--epochs", "1"},
                                                       {"--lr", "nan"},
                                                       {"--min-lr", "nan"},
                                                       {"--weight-decay", "nan"},
                                                       {"--grad-clip", "nan"},
                                                       {"--seed", "-1"},
                                                       {"--seed", "18446744073709551616"},
                                                       {"--seed", "1e3"},
                                                       {"--seed", "0x5"},
                                                       {"--seed", "010"},
                                                       {"--steps", "0x5"},
                                                       {"--steps", "010"},
                                                       {"--warmup-steps", "0x5"},
                                                       {"--nproc-per-node", "0x2"}};
  for (const auto& arguments : wrong) {
    const auto parsed = Parse(arguments);
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << arguments[0];
    EXPECT_EQ(std::get<int>(parsed), 2) << arguments[0];
  }
}

TEST(ParseCommandLineTest, SeedsHave64Bits) {
  EXPECT_EQ(std::get<Options>(Parse({"--seed", "18446744073709551615"})).seed, UINT64_MAX);
}

TEST(ParseCommandLineTest, LastOfRepeatedFlagsCounts) {
  const Options options = std::get<Options>(Parse({"--steps", "5", "--lr", "1", "--steps", "7"}));
  EXPECT_EQ(options.steps, 7);
}

TEST(ParseCommandLineTest, AnExperimentStaysBelowItsDirectory) {
  for (const char* name : {"first", "sweep/3", "..a", "earlier", "earlier-run"}) {
    const auto parsed = Parse({"--save-dir", "out", "--experiment-name", name});
    EXPECT_TRUE(std::holds_alternative<Options>(parsed)) << name;
  }
  for (const char* name : {"../up", ".", "..", "x/../../y", "/etc", "a/", "a//b", "earlier-1",
                           "sweep/earlier-12", "sweep/run.json"}) {
    const auto parsed = Parse({"--save-dir", "out", "--experiment-name", name});
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << name;
    EXPECT_EQ(std::get<int>(parsed), 2) << name;
  }
}

TEST(ParseCommandLineTest, ParsesDeviceAndTimeout) {
  const Options defaults = std::get<Options>(Parse({}));
  EXPECT_EQ(defaults.comm, Comm::kAuto);
  EXPECT_FALSE(defaults.bfloat16);
  EXPECT_EQ(defaults.group_timeout, absl::Seconds(120));
  const Options options =
      std::get<Options>(Parse({"--comm", "nccl", "--dtype", "bfloat16", "--group-timeout", "7"}));
  EXPECT_EQ(options.comm, Comm::kNccl);
  EXPECT_TRUE(options.bfloat16);
  EXPECT_EQ(options.group_timeout, absl::Seconds(7));
  EXPECT_EQ(std::get<int>(Parse({"--group-timeout", "0"})), 2);
}

}  // namespace
}  // namespace ranklog::trainer
