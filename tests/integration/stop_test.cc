// How ranklogd ends while there is something to deliver: soon, or with --drain after the delivery.
// S20.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A server that accepts connections and never answers.
class BlackHole {
 public:
  BlackHole() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~BlackHole() { close(fd_); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  bool WaitForConnection() const {
    pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&readable, 1, /*timeout=*/30'000) == 1;
  }

 private:
  const int fd_;
  int port_ = 0;
};

TEST(StopTest, StopsPromptlyWhileTrackerHangs) {
  BlackHole hole;
  Node node;
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"100"}, WandbAt(hole.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(hole.WaitForConnection());
  const absl::Time before = SteadyNow();
  EXPECT_EQ(node.Terminate(), 0);
  EXPECT_LT(SteadyNow() - before, absl::Seconds(5)) << "usual is well below one";
}

TEST(StopTest, DrainEndsOnceAllIsDelivered) {
  auto wandb = std::make_unique<FakeWandb>();
  const int port = wandb->port();
  const std::string url = wandb->url();
  wandb.reset();
  Node node({"--drain", "2m"});
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"100"}, WandbAt(url));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  node.daemon().Signal(SIGTERM);
  ASSERT_TRUE(WaitFor([&] { return access(node.socket().c_str(), F_OK) != 0; }));
  wandb = std::make_unique<FakeWandb>(port);
  EXPECT_EQ(node.daemon().Wait(absl::Minutes(1)), 0);
  EXPECT_THAT(wandb->errors(), IsEmpty());
  EXPECT_TRUE(wandb->run("job").complete);
  EXPECT_THAT(wandb->run("job").history, SizeIs(100));
}

TEST(StopTest, DrainDeadlineKeepsUndeliveredRows) {
  BlackHole hole;
  Node node({"--drain", "300ms"});
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"100"}, WandbAt(hole.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  const absl::Time before = SteadyNow();
  EXPECT_EQ(node.Terminate(), 0);
  EXPECT_LT(SteadyNow() - before, absl::Seconds(5));
  const auto pending = node.Reader()->PendingDeliveries();
  ASSERT_TRUE(pending.ok());
  EXPECT_THAT(*pending, SizeIs(1));
}

bool HasPending(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    uint64_t pending = 0;
    if (word == "ShdPnd:") return status >> std::hex >> pending && (pending >> (signal - 1) & 1);
  }
  return false;
}

// For example for lack of descriptors: the user wants to restart it with more of them.
TEST(StopTest, StopsUnresponsiveDaemon) {
  Node node;
  node.Start();
  node.daemon().Signal(SIGSTOP);
  ChildProcess stop({RANKLOG_CLI, "stop", "--state-dir", node.state_dir()}, {});
  EXPECT_TRUE(WaitFor([&] { return HasPending(node.daemon().pid(), SIGTERM); })) << stop.Output();
  node.daemon().Signal(SIGCONT);
  EXPECT_EQ(stop.Wait(), 0) << stop.Output();
  EXPECT_EQ(node.daemon().Wait(), 0);
}

// A rank that has ended started it. It is ready only after its user thought that no daemon runs.
TEST(StopTest, StopsDaemonThatIsStarting) {
  Node node;
  TempDir dir;
  // like a daemon that is still loading its libraries
  const std::string slow = dir.File("ranklogd");
  std::ofstream(slow) << "#!/bin/sh\nsleep 1\nexec " << RANKLOGD << " \"$@\"\n";
  std::filesystem::permissions(slow, std::filesystem::perms::owner_all);
  ChildProcess daemon({slow, "--state-dir", node.state_dir(), "--listen", node.address()});
  const Finished stop = RunToEnd({RANKLOG_CLI, "stop", "--state-dir", node.state_dir()});
  EXPECT_EQ(stop.code, 0);
  EXPECT_EQ(stop.output, absl::StrCat("stopped pid ", daemon.pid(), "\n"));
  EXPECT_EQ(daemon.Wait(), 0);
}

}  // namespace
}  // namespace ranklog::testing
