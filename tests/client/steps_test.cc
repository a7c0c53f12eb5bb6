// The open step of a run, over its rings.

#include "client/ring/steps.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "client/stream/idle_progress.h"

namespace ranklog::internal {
namespace {

TEST(StepsTest, RowWithoutStepMergesAndCloses) {
  const auto steps = SharedSteps::Create();
  const uint32_t word = steps->AddRing();
  steps->Take(word, 0);
  steps->Take(word, 7);
  EXPECT_EQ(steps->TakeOpen(), 7);
  EXPECT_EQ(steps->TakeOpen(), 8);
  EXPECT_EQ(steps->open(), 9);
}

// A file over the limit would end the process.
TEST(StepsTest, NeedNoFile) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto steps = SharedSteps::Create();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_NE(steps, nullptr);
  steps->Take(steps->AddRing(), 7);
  EXPECT_EQ(steps->TakeOpen(), 7);
}

TEST(StepsTest, GivenStepEndsRowCounting) {
  for (const size_t which : {size_t{0}, size_t{15}}) {  // with its own word and without one
    const auto steps = SharedSteps::Create();
    std::vector<uint32_t> words(16);
    for (uint32_t& word : words) word = steps->AddRing();
    const RowStep open = RowStep::Open(steps.get());
    EXPECT_TRUE(open.counted());
    open.Take();
    EXPECT_TRUE(open.counted());
    const RowStep given = RowStep::Given(steps.get(), words[which], 0);
    EXPECT_FALSE(given.counted());
    given.Take();
    EXPECT_FALSE(open.counted());
  }
}

TEST(StepsTest, GivenStepIsCheckedAgainstMinimum) {
  const auto steps = SharedSteps::Create();
  EXPECT_TRUE(RowStep::Given(steps.get(), 1, 6).IsBelow(7));
  EXPECT_FALSE(RowStep::Given(steps.get(), 1, 7).IsBelow(7));
  EXPECT_FALSE(RowStep::Open(steps.get()).IsBelow(7));
}

TEST(StepsTest, NextStepFollowsAllRows) {
  const auto steps = SharedSteps::Create();
  std::vector<uint32_t> words(20);
  for (uint32_t& word : words) word = steps->AddRing();
  EXPECT_EQ(steps->next(), 0);
  EXPECT_EQ(steps->TakeOpen(), 0);
  EXPECT_EQ(steps->next(), 1);
  int64_t step = 1;
  for (const uint32_t word : words) {
    steps->Take(word, step);
    EXPECT_EQ(steps->open(), step);
    EXPECT_EQ(steps->next(), step + 1);
    EXPECT_EQ(steps->TakeOpen(), step);
    EXPECT_EQ(steps->next(), step + 1);
    step += 3;
  }
}

// There are more rings than words.
TEST(StepsTest, OpenStepIsLargestOfRings) {
  const auto steps = SharedSteps::Create();
  std::vector<uint32_t> words(20);
  for (uint32_t& word : words) word = steps->AddRing();
  int64_t step = 1000;
  for (const uint32_t word : words) steps->Take(word, step -= 5);
  EXPECT_EQ(steps->open(), 995);
  for (const uint32_t word : words) {
    steps->Take(word, step = steps->open() + 5);
    EXPECT_EQ(steps->TakeOpen(), step);
    EXPECT_EQ(steps->open(), step + 1);
  }
}

TEST(StepsTest, ForkedChildSharesSteps) {
  const auto steps = SharedSteps::Create();
  const uint32_t word = steps->AddRing();
  steps->Take(word, 3);
  const pid_t child = fork();
  if (child == 0) {
    const uint32_t own = steps->AddRing();
    steps->Take(own, 2);
    const bool shared = steps->open() == 3;
    steps->Take(own, 9);
    _exit(shared ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(steps->TakeOpen(), 9);
}

TEST(StepsTest, ThreadsTakeEachOpenStepOnce) {
  constexpr int kThreads = 4, kRows = 20000;
  const auto steps = SharedSteps::Create();
  std::vector<std::vector<int64_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&steps, &mine = taken[i]] {
      const uint32_t word = steps->AddRing();
      for (int row = 0; row < kRows; ++row) {
        const int64_t step = steps->TakeOpen();
        mine.push_back(step);
        steps->Take(word, step + 2);  // skips a step, unless another thread took it meanwhile
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int64_t> all;
  for (const auto& mine : taken) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

// Otherwise it would hold back the steps of the others.
TEST(IdleProgressTest, IdleRingAdvancesBelowOpenStep) {
  IdleProgress progress;
  IdleProgress::Time now{};
  progress.OnRow(3, /*commits=*/false);
  EXPECT_EQ(progress.Next(now, /*head=*/100, /*open_step=*/8), std::nullopt);
  EXPECT_EQ(progress.Next(now += IdleProgress::kIdle, 100, 12), 7) << "what was open a second ago";
  EXPECT_EQ(progress.Next(now += IdleProgress::kIdle, 100, 12), 11);
}

TEST(IdleProgressTest, LaggingRingGetsMoreTime) {
  IdleProgress progress;
  IdleProgress::Time now{};
  progress.Next(now, 100, 8);
  EXPECT_EQ(progress.Next(now += IdleProgress::kIdle, 100, 12), 7);
  progress.OnRow(4, /*commits=*/false);
  EXPECT_EQ(progress.Next(now, 200, 20), std::nullopt);
  EXPECT_EQ(progress.Next(now += IdleProgress::kIdle, 200, 30), std::nullopt);
  EXPECT_EQ(progress.Next(now += IdleProgress::kIdleBehind, 200, 40), 19);
}

}  // namespace
}  // namespace ranklog::internal
