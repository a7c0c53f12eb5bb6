// The open step of a run, among its rings.

#include "client/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace ranklog::internal {
namespace {

using ::testing::Each;

TEST(StepsTest, ARingMergesIntoItsStepAndRefusesASmallerOne) {
  const auto steps = SharedSteps::Create();
  const uint32_t word = steps->AddRing();
  EXPECT_FALSE(steps->Take(word, -1));
  EXPECT_TRUE(steps->Take(word, 0));
  EXPECT_TRUE(steps->Take(word, 7));
  EXPECT_TRUE(steps->Take(word, 7));
  EXPECT_FALSE(steps->Take(word, 6));
  EXPECT_EQ(steps->TakeOpen(), 7);
  EXPECT_FALSE(steps->Take(word, 7));
  EXPECT_EQ(steps->TakeOpen(), 8);
  EXPECT_EQ(steps->open(), 9);
}

TEST(StepsTest, TheNextStepIsBehindAllRows) {
  const auto steps = SharedSteps::Create();
  std::vector<uint32_t> words(20);
  for (uint32_t& word : words) word = steps->AddRing();
  EXPECT_EQ(steps->next(), 0);
  EXPECT_EQ(steps->TakeOpen(), 0);
  EXPECT_EQ(steps->next(), 1);
  int64_t step = 1;
  for (const uint32_t word : words) {
    EXPECT_TRUE(steps->Take(word, step));
    EXPECT_EQ(steps->open(), step);
    EXPECT_EQ(steps->next(), step + 1);
    EXPECT_EQ(steps->TakeOpen(), step);
    EXPECT_EQ(steps->next(), step + 1);
    step += 3;
  }
}

// More of them than there are words.
TEST(StepsTest, AnyRingClosesTheSmallerStepsOfAllOthers) {
  const auto steps = SharedSteps::Create();
  std::vector<uint32_t> words(20);
  for (uint32_t& word : words) word = steps->AddRing();
  int64_t step = 0;
  for (const uint32_t word : words) {
    EXPECT_TRUE(steps->Take(word, step += 5));
    std::vector<bool> smaller, same;
    for (const uint32_t other : words) smaller.push_back(steps->Take(other, step - 1));
    for (const uint32_t other : words) same.push_back(steps->Take(other, step));
    EXPECT_THAT(smaller, Each(false)) << word;
    EXPECT_THAT(same, Each(true)) << word;
    EXPECT_EQ(steps->TakeOpen(), step);
  }
}

TEST(StepsTest, AForkedChildSharesThem) {
  const auto steps = SharedSteps::Create();
  const uint32_t word = steps->AddRing();
  EXPECT_TRUE(steps->Take(word, 3));
  const pid_t child = fork();
  if (child == 0) {
    const uint32_t own = steps->AddRing();
    _exit(!steps->Take(own, 2) && steps->Take(own, 9) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(steps->Take(word, 8));
  EXPECT_EQ(steps->TakeOpen(), 9);
}

TEST(StepsTest, ThreadsThatLogWithoutAStepGetEachStepOnce) {
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
        steps->Take(word, step + 2);  // leaves a step out, if nobody else took it meanwhile
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

}  // namespace
}  // namespace ranklog::internal
