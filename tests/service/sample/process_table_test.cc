#include "service/sample/process/process_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/sample/fake_node.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::FakeProcess;
using ::ranklog::testing::StatOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<pid_t> PidsOf(const std::vector<const Process*>& processes) {
  std::vector<pid_t> pids;
  for (const Process* const process : processes) pids.push_back(process->pid);
  return pids;
}

ProcessTable TableOf(const std::vector<FakeProcess>& fakes) {
  std::vector<Process> processes;
  for (const FakeProcess& fake : fakes) processes.push_back(*ParseProcess(StatOf(fake)));
  return ProcessTable(std::move(processes));
}

TEST(ProcessTableTest, StatOfThisKernelIsParsed) {
  const auto process = ParseProcess(
      "25420 (cat) R 25412 25412 22095 0 -1 4194304 98 0 0 0 7 3 20 10 20 0 12 0 1274942 3133440 "
      "384 18446744073709551615 94002360385536 94002360405417 140722433710016 0 0 0 0\n");
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(process->pid, 25420);
  EXPECT_EQ(process->parent, 25412);
  EXPECT_EQ(process->cpu, 10u);
  EXPECT_EQ(process->ended_children, 30u);
  EXPECT_EQ(process->threads, 12u);
  EXPECT_EQ(process->start, 1274942u);
  EXPECT_EQ(process->resident_pages, 384u);
  EXPECT_FALSE(process->kernel_thread);
}

TEST(ProcessTableTest, NameMayContainAnything) {
  for (const char* const name : {"a b", "a) S 1 1", "(", ")", "", "x\ny"}) {
    const auto process = ParseProcess(StatOf({.pid = 7, .parent = 5, .pages = 3, .name = name}));
    ASSERT_TRUE(process.has_value()) << name;
    EXPECT_EQ(process->parent, 5) << name;
    EXPECT_EQ(process->resident_pages, 3u) << name;
  }
}

TEST(ProcessTableTest, ShortStatIsRefused) {
  const std::string whole = StatOf({.pid = 7, .pages = 3});
  EXPECT_FALSE(ParseProcess("").has_value());
  EXPECT_FALSE(ParseProcess("7").has_value());
  EXPECT_FALSE(ParseProcess("7 (x)").has_value());
  EXPECT_FALSE(ParseProcess(whole.substr(0, whole.find(" 1000 "))).has_value());
}

TEST(ProcessTableTest, TreeHasAllDescendantsOnce) {
  const ProcessTable table = TableOf({{.pid = 10},
                                      {.pid = 30, .parent = 20},
                                      {.pid = 20, .parent = 10},
                                      {.pid = 40},
                                      {.pid = 50, .parent = 10}});
  EXPECT_THAT(PidsOf(table.Trees({10})), UnorderedElementsAre(10, 20, 30, 50));
  EXPECT_THAT(PidsOf(table.Trees({20, 10, 20, 99})), UnorderedElementsAre(10, 20, 30, 50));
  EXPECT_THAT(PidsOf(table.Trees({40})), ElementsAre(40));
  EXPECT_THAT(PidsOf(table.Trees({})), IsEmpty());
}

TEST(ProcessTableTest, CircleOfParentsEnds) {
  const ProcessTable table = TableOf({{.pid = 10, .parent = 20}, {.pid = 20, .parent = 10}});
  EXPECT_THAT(PidsOf(table.Trees({10})), ElementsAre(10, 20));
}

}  // namespace
}  // namespace ranklog::sample
