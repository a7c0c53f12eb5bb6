#include "service/sample/process/process_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/service/sample/fake_node.h"
#include "tests/support/child_process.h"

namespace ranklog::sample {
namespace {

using ::ranklog::testing::ChildProcess;
using ::ranklog::testing::FakeNode;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr unsigned kKernelThread = 0x208040;

TEST(ProcessReaderTest, OwnProcessIsFound) {
  ProcessReader reader("/proc");
  const ChildProcess child({"sleep", "100"});
  const ProcessTable table = reader.Read();
  ASSERT_NE(table.Find(getpid()), nullptr);
  EXPECT_EQ(table.Find(getpid())->parent, getppid());
  EXPECT_GT(table.Find(getpid())->resident_pages, 0u);
  ASSERT_NE(table.Find(child.pid()), nullptr);
  EXPECT_EQ(table.Find(child.pid())->parent, getpid());
}

TEST(ProcessReaderTest, EndedProcessIsGone) {
  ProcessReader reader("/proc");
  pid_t pid = 0;
  {
    const ChildProcess child({"sleep", "100"});
    pid = child.pid();
    EXPECT_NE(reader.Read().Find(pid), nullptr);
  }
  EXPECT_EQ(reader.Read().Find(pid), nullptr);
}

TEST(ProcessReaderTest, UnreadableProcessIsLeftOut) {
  const FakeNode node;
  node.Put({.pid = 10});
  node.Write("proc/11/status", "a process whose stat cannot be opened\n");
  node.Write("proc/12/stat", "");
  EXPECT_THAT(ProcessReader(node.root() + "/proc").Read().processes(), SizeIs(1));
}

TEST(ProcessReaderTest, WithoutProcTheTableIsEmpty) {
  EXPECT_THAT(ProcessReader("/absent").Read().processes(), IsEmpty());
}

TEST(ProcessReaderTest, KernelThreadIsSkippedUntilItsTurn) {
  const FakeNode node;
  node.Put({.pid = 10, .flags = kKernelThread});
  node.Put({.pid = 11});
  ProcessReader reader(node.root() + "/proc");
  EXPECT_THAT(reader.Read().processes(), SizeIs(2));

  // An ordinary process has the pid now.
  node.Put({.pid = 10, .start = 200});
  uint32_t calls = 1;
  while (reader.Read().Find(10) == nullptr) ASSERT_LE(++calls, ProcessReader::kRecheck);
  EXPECT_GT(calls, 1u);
  EXPECT_NE(reader.Read().Find(10), nullptr);
}

TEST(ProcessReaderTest, NewProcessWithTheOldPidOfAKernelThreadIsRead) {
  const FakeNode node;
  node.Put({.pid = 10, .flags = kKernelThread});
  ProcessReader reader(node.root() + "/proc");
  reader.Read();
  node.End(10);
  reader.Read();
  node.Put({.pid = 10});
  EXPECT_NE(reader.Read().Find(10), nullptr);
}

}  // namespace
}  // namespace ranklog::sample
