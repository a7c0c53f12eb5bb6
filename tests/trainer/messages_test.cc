#include "trainer/base/messages.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "absl/time/clock.h"
#include "tests/support/child_process.h"

namespace ranklog::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// In these tests, stderr is a pipe that only the test reads.
class MessagesTest : public ::testing::Test {
 protected:
  MessagesTest() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_EQ(dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~MessagesTest() override {
    ReadAll();
    AwaitMessages();  // writes the rest of a test
    dup2(old_, STDERR_FILENO);
    for (const int fd : {old_, ends_[0], ends_[1]}) close(fd);
  }
  static void Fill() {
    const std::string block(PIPE_BUF, '.');
    for (int i = 0; i < 1000; ++i) WriteProgress(block);
  }
  std::string ReadAll() const {
    std::string text;
    char bytes[4096];
    for (ssize_t size; (size = read(ends_[0], bytes, sizeof bytes)) > 0;) text.append(bytes, size);
    return text;
  }

  const int old_ = dup(STDERR_FILENO);
  int ends_[2] = {};
};

TEST_F(MessagesTest, WritesImmediatelyToEmptyPipe) {
  WriteMessage("a\n");
  WriteProgress("b\n");
  WriteFromHandler("c\n", 2);
  EXPECT_EQ(ReadAll(), "a\nb\nc\n");
}

TEST_F(MessagesTest, FullPipeDropsOnlyProgress) {
  Fill();
  WriteMessage("message\n");
  WriteProgress("dropped\n");
  EXPECT_THAT(ReadAll(), Not(HasSubstr("message")));
  WriteProgress("shown\n");
  EXPECT_EQ(ReadAll(), "message\nshown\n");
}

TEST_F(MessagesTest, LongMessageComesWhole) {
  const std::string text = std::string(100'000, 'x') + "end\n";  // more than the capacity of a pipe
  WriteMessage(text);
  std::string seen = ReadAll();
  while (seen.size() < text.size()) {
    AwaitMessages(absl::ZeroDuration());
    const std::string more = ReadAll();
    ASSERT_NE(more, "");
    seen += more;
  }
  EXPECT_EQ(seen, text);
}

TEST_F(MessagesTest, KeepsTheNewestMessages) {
  Fill();
  for (int i = 0; i < 100; ++i) WriteMessage("message " + std::to_string(i) + "\n");
  ReadAll();
  AwaitMessages();
  const std::string text = ReadAll();
  EXPECT_THAT(text, HasSubstr("message 99\n"));
  EXPECT_THAT(text, Not(HasSubstr("message 9\n")));
}

TEST_F(MessagesTest, WaitForReaderIsBounded) {
  Fill();
  WriteMessage("message\n");
  const absl::Time begin = absl::Now();
  AwaitMessages(absl::Milliseconds(50));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(50));
  ReadAll();
  AwaitMessages(absl::InfiniteDuration());
  EXPECT_EQ(ReadAll(), "message\n");
}

// The line of progress may be that of another process.
TEST_F(MessagesTest, MessageReplacesTerminalProgress) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_EQ(grantpt(terminal) + unlockpt(terminal), 0);
  const int stderr_end = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_EQ(dup2(stderr_end, STDERR_FILENO), STDERR_FILENO);
  WriteProgress("step 5");
  WriteMessage("a\033[2Jmessage\n");
  std::string seen;  // the terminal passes the bytes on a moment later
  EXPECT_TRUE(testing::WaitFor([&] {
    char bytes[64];
    if (const ssize_t size = read(terminal, bytes, sizeof bytes); size > 0)
      seen.append(bytes, size);
    return seen == "step 5\r\033[Ka [2Jmessage\r\n";
  })) << seen;
  for (const int fd : {terminal, stderr_end}) close(fd);
}

// Other processes share the open file, and may expect that a write blocks.
TEST_F(MessagesTest, KeepsStderrBlocking) {
  Fill();
  WriteMessage("message\n");
  EXPECT_EQ(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
}

}  // namespace
}  // namespace ranklog::trainer
