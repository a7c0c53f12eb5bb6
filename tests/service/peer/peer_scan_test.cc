// Programs that hold or abuse the port for other daemons: neither ranks nor peers notice them.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "service/ingest/server/acceptor.h"
#include "tests/service/peer/peer_fixture.h"
#include "tests/support/child_process.h"

namespace ranklog::peer {
namespace {

using ::ranklog::testing::WaitFor;

// A process with many connections to a port, each of which sent the same bytes. It keeps them open.
class Scanner {
 public:
  Scanner(int port, int count, const std::string& bytes) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {  // only calls that are allowed after a fork of a process with threads
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = limit.rlim_max;
      setrlimit(RLIMIT_NOFILE, &limit);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(port));
      for (int i = 0; i < count; ++i) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) continue;
        send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      }
      [[maybe_unused]] const ssize_t written = write(ready[1], "x", 1);
      while (true) pause();
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Scanner() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

class PeerScanTest : public ::ranklog::testing::PeerTest {
 protected:
  PeerScanTest() {
    getrlimit(RLIMIT_NOFILE, &before_);
    auto socket = ingest::ListenSocket::Bind(path_);
    EXPECT_OK(socket);
    ingest::Acceptor::Handlers handlers;
    handlers.grpc = [this](UniqueFd, std::shared_ptr<const ingest::Peer>) { ++ranks_; };
    auto acceptor =
        ingest::Acceptor::Start(*std::move(socket), {}, std::move(handlers), &rank_counters_);
    EXPECT_OK(acceptor);
    acceptor_ = *std::move(acceptor);
  }
  ~PeerScanTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  void LimitDescriptors(rlim_t count) {
    const rlimit limit{std::min(count, before_.rlim_max), before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  // Whether a new rank gets through to the local server.
  bool LocalSocketAnswers() {
    const int before = ranks_;
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(send(fd.get(), "PRI * HTTP/2.0", 14, 0), 14);
    return WaitFor([&] { return ranks_ > before; });
  }

  const std::string path_ = dir_.File("s");
  rlimit before_{};
  std::atomic<int> ranks_{0};
  ingest::Acceptor::Counters rank_counters_;
  std::unique_ptr<ingest::Acceptor> acceptor_;
};

TEST_F(PeerScanTest, SilentConnectionsMakeRoom) {
  Listen();
  const Scanner scanner(address().port, 500, "");
  EXPECT_TRUE(LocalSocketAnswers());
  EXPECT_TRUE(CallWith(key_).ok()) << "the oldest silent connection was closed";
  EXPECT_TRUE(WaitFor([&] { return counters_.accepted >= 501 && counters_.refused >= 244; }));
}

TEST_F(PeerScanTest, SilentConnectionsAreClosedInTime) {
  Listen({.first_byte = absl::Milliseconds(50)});
  const Scanner scanner(address().port, 100, "");
  EXPECT_TRUE(WaitFor([&] { return counters_.refused == 100; }));
}

TEST_F(PeerScanTest, GarbageIsClosedAtOnce) {
  Listen();
  const Scanner scanner(address().port, 500, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(LocalSocketAnswers());
  EXPECT_TRUE(CallWith(key_).ok());
  EXPECT_TRUE(WaitFor([&] { return counters_.refused == 500; }));
}

// gRPC has these connections, until its timeout for handshakes.
TEST_F(PeerScanTest, UnfinishedHandshakesLeaveRanksAndPeers) {
  Listen();
  const Scanner scanner(address().port, 500, std::string("\x16\x03\x01\x02\x00", 5));
  EXPECT_TRUE(LocalSocketAnswers());
  EXPECT_TRUE(CallWith(key_).ok());
  // Their first bytes may come after more than 256 connections.
  EXPECT_LE(counters_.refused, 500u - 256u);
}

// TLS records that are not a handshake.
TEST_F(PeerScanTest, BrokenHandshakesLeaveRanksAndPeers) {
  Listen();
  const Scanner scanner(address().port, 500, "\x16\x03\x01" + std::string(600, 'x'));
  EXPECT_TRUE(LocalSocketAnswers());
  EXPECT_TRUE(CallWith(key_).ok());
}

// Peers may use half of the descriptors, and ranks two thirds.
TEST_F(PeerScanTest, FullPortLeavesDescriptorsToRanks) {
  LimitDescriptors(256);
  Listen({.handshake = absl::Milliseconds(200)});
  const Scanner scanner(address().port, 500, std::string("\x16\x03\x01\x02\x00", 5));
  EXPECT_TRUE(WaitFor([&] { return counters_.shortages > 0; }));
  EXPECT_LT(counters_.accepted, 128u);
  EXPECT_TRUE(LocalSocketAnswers());
  EXPECT_EQ(rank_counters_.shortages, 0u);
  // Once the handshakes have timed out, peers come through again.
  EXPECT_TRUE(WaitFor([&] { return CallWith(key_).ok(); }, absl::Seconds(60)));
}

}  // namespace
}  // namespace ranklog::peer
