#include "service/sample/process/tree_cpu.h"

#include <gtest/gtest.h>

#include "tests/service/sample/fake_node.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::FakeProcess;
using ::ranklog::testing::StatOf;

class TreeCpuTest : public ::testing::Test {
 protected:
  absl::optional<uint64_t> Since(const std::vector<FakeProcess>& fakes,
                                 const std::vector<pid_t>& roots = {10}) {
    std::vector<Process> processes;
    for (const FakeProcess& fake : fakes) processes.push_back(*ParseProcess(StatOf(fake)));
    const ProcessTable table(std::move(processes));
    return cpu_.Since(table, table.Trees(roots));
  }

 private:
  TreeCpu cpu_;
};

TEST_F(TreeCpuTest, FirstCallHasNoFigure) { EXPECT_FALSE(Since({{.pid = 10}}).has_value()); }

TEST_F(TreeCpuTest, TimeOfTheWholeTreeCounts) {
  Since({{.pid = 10, .cpu = 500}, {.pid = 20, .parent = 10, .cpu = 50}});
  EXPECT_EQ(Since({{.pid = 10, .cpu = 530}, {.pid = 20, .parent = 10, .cpu = 57}}), 37u);
}

TEST_F(TreeCpuTest, NewChildCountsFromItsStart) {
  Since({{.pid = 10, .start = 100, .cpu = 500}});
  EXPECT_EQ(Since({{.pid = 10, .start = 100, .cpu = 500},
                   {.pid = 20, .parent = 10, .start = 105, .cpu = 9}}),
            9u);
}

TEST_F(TreeCpuTest, OldProcessThatJoinsCountsFromThenOn) {
  Since({{.pid = 10, .cpu = 500}, {.pid = 30, .start = 120, .cpu = 800}});
  EXPECT_EQ(Since({{.pid = 10, .cpu = 500}, {.pid = 30, .start = 110, .cpu = 805}}, {10, 30}), 0u);
  EXPECT_EQ(Since({{.pid = 10, .cpu = 500}, {.pid = 30, .start = 110, .cpu = 825}}, {10, 30}), 20u);
}

TEST_F(TreeCpuTest, EndedChildCountsOnce) {
  Since({{.pid = 10, .cpu = 500, .ended_children = 3}, {.pid = 20, .parent = 10, .cpu = 50}});
  // The child used 8 more before it ended.
  EXPECT_EQ(Since({{.pid = 10, .cpu = 501, .ended_children = 61}}), 1u + 8);
}

TEST_F(TreeCpuTest, ChildThatLivedBetweenTwoCallsCounts) {
  Since({{.pid = 10, .cpu = 500}});
  EXPECT_EQ(Since({{.pid = 10, .cpu = 500, .ended_children = 33}}), 33u);
}

TEST_F(TreeCpuTest, EndedGrandchildCountsOnce) {
  Since({{.pid = 10}, {.pid = 20, .parent = 10, .cpu = 50}, {.pid = 30, .parent = 20, .cpu = 7}});
  EXPECT_EQ(Since({{.pid = 10, .ended_children = 60}}), 3u);
}

TEST_F(TreeCpuTest, EndedChildThatNobodyWaitedForIsMissing) {
  Since({{.pid = 10, .cpu = 500}, {.pid = 20, .parent = 10, .cpu = 50}});
  EXPECT_EQ(Since({{.pid = 10, .cpu = 501}}), 1u);
}

TEST_F(TreeCpuTest, ReusedPidIsANewProcess) {
  Since({{.pid = 10}, {.pid = 20, .parent = 10, .start = 110, .cpu = 50}});
  EXPECT_EQ(Since({{.pid = 10}, {.pid = 20, .parent = 10, .start = 300, .cpu = 60}}), 60u);
}

TEST_F(TreeCpuTest, SmallerTimesCountAsNone) {
  Since({{.pid = 10, .cpu = 500, .ended_children = 9}});
  EXPECT_EQ(Since({{.pid = 10, .cpu = 400, .ended_children = 8}}), 0u);
}

}  // namespace
}  // namespace ranklog::sample
