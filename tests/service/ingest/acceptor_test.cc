#include "service/ingest/server/acceptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::ranklog::testing::WaitFor;
using ::testing::HasSubstr;

UniqueFd Connect(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

bool WasClosed(const UniqueFd& fd) {
  char byte;
  return WaitFor([&] { return recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0; });
}

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(Acceptor::Options options = {}) {
    auto socket = ListenSocket::Bind(path_);
    ASSERT_OK(socket);
    Acceptor::Handlers handlers;
    handlers.grpc = [this](UniqueFd fd, std::shared_ptr<const Peer> peer) {
      absl::MutexLock lock(&mutex_);
      grpc_ = std::move(fd);
      peer_ = std::move(peer);
    };
    handlers.descriptor = [this](uint64_t incarnation, UniqueFd fd, std::shared_ptr<const Peer>,
                                 UniqueFd) {
      absl::MutexLock lock(&mutex_);
      incarnation_ = incarnation;
      descriptor_ = std::move(fd);
    };
    auto acceptor = Acceptor::Start(*std::move(socket), options, std::move(handlers), &counters_);
    ASSERT_OK(acceptor);
    acceptor_ = *std::move(acceptor);
  }
  bool Has(const UniqueFd& fd) {
    return WaitFor([&] {
      absl::MutexLock lock(&mutex_);
      return fd.valid();
    });
  }

  TempDir dir_;
  const std::string path_ = dir_.File("s");
  absl::Mutex mutex_;
  UniqueFd grpc_;
  UniqueFd descriptor_;
  std::shared_ptr<const Peer> peer_;
  uint64_t incarnation_ = 0;
  Acceptor::Counters counters_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, PassesGrpcConnectionsWithPeer) {
  Start();
  const UniqueFd client = Connect(path_);
  ASSERT_EQ(send(client.get(), "P", 1, 0), 1);
  ASSERT_EQ(send(client.get(), "RI * HTTP/2.0", 13, 0), 13);
  ASSERT_TRUE(Has(grpc_));
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(peer_->pid, getpid());
  EXPECT_EQ(peer_->uid, geteuid());
  EXPECT_FALSE(peer_->exited());
  char bytes[16];
  EXPECT_EQ(recv(grpc_.get(), bytes, sizeof(bytes), 0), 14);  // all bytes are still there
}

TEST_F(AcceptorTest, TakesAPassedDescriptor) {
  Start();
  const UniqueFd memory(memfd_create("spool", MFD_CLOEXEC));
  const UniqueFd client = Connect(path_);
  std::string bytes(v1::kDescriptorMagic, sizeof(v1::kDescriptorMagic));
  const uint64_t incarnation = 0x1122334455667788;
  bytes.append(reinterpret_cast<const char*>(&incarnation), sizeof(incarnation));
  iovec part{bytes.data(), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = memory.get();
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  ASSERT_EQ(sendmsg(client.get(), &message, 0), 16);
  ASSERT_TRUE(Has(descriptor_));
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(incarnation_, incarnation);
  struct stat sent {
  }, got{};
  ASSERT_EQ(fstat(memory.get(), &sent), 0);
  ASSERT_EQ(fstat(descriptor_.get(), &got), 0);
  EXPECT_EQ(sent.st_ino, got.st_ino);
}

TEST_F(AcceptorTest, RefusesADescriptorMessageWithoutOne) {
  Start();
  const UniqueFd client = Connect(path_);
  ASSERT_EQ(send(client.get(), "RLSPOOL112345678", 16, 0), 16);
  EXPECT_TRUE(WasClosed(client));
  EXPECT_EQ(counters_.refused_protocol, 1u);
}

TEST_F(AcceptorTest, RefusesOtherUsers) {
  Acceptor::Options options;
  options.uid = geteuid() + 1;  // as if another user's daemon were running
  Start(options);
  EXPECT_TRUE(WasClosed(Connect(path_)));
  EXPECT_EQ(counters_.refused_user, 1u);
}

TEST_F(AcceptorTest, RefusesOtherProtocolsAndSilentPeers) {
  Acceptor::Options options;
  options.first_bytes = absl::Milliseconds(20);
  Start(options);
  const UniqueFd http = Connect(path_);
  ASSERT_EQ(send(http.get(), "GET / HTTP/1.1", 14, 0), 14);
  EXPECT_TRUE(WasClosed(http));
  EXPECT_TRUE(WasClosed(Connect(path_)));
  EXPECT_EQ(counters_.refused_protocol, 2u);
}

// Like a second daemon, which only checks whether a daemon answers there.
TEST_F(AcceptorTest, SilentDisconnectIsNotCounted) {
  Start();
  Connect(path_);
  const UniqueFd http = Connect(path_);  // accepted after the one above
  ASSERT_EQ(send(http.get(), "GET / HTTP/1.1", 14, 0), 14);
  EXPECT_TRUE(WasClosed(http));
  EXPECT_EQ(counters_.refused_protocol, 1u);
}

TEST_F(AcceptorTest, PrivateSocketIsRemovedAtStop) {
  Start();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(ListenSocket::Bind(path_), StatusIs(absl::StatusCode::kAlreadyExists));
  acceptor_->Stop();
  acceptor_->Stop();
  EXPECT_NE(stat(path_.c_str(), &info), 0);
}

TEST_F(AcceptorTest, RecreatesARemovedSocketFile) {
  Acceptor::Options options;
  options.check_interval = absl::Milliseconds(5);
  Start(options);
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_TRUE(WaitFor([&] { return counters_.rebinds == 1; }));
  const UniqueFd client = Connect(path_);
  ASSERT_EQ(send(client.get(), "PRI", 3, 0), 3);
  EXPECT_TRUE(Has(grpc_));
  acceptor_->Stop();
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(AcceptorTest, KeepsASuccessorsSocket) {
  Acceptor::Options options;
  options.check_interval = absl::Milliseconds(5);
  Start(options);
  {
    auto other = ListenSocket::Bind(dir_.File("t"));
    ASSERT_OK(other);
    ASSERT_EQ(rename(dir_.File("t").c_str(), path_.c_str()), 0);
    // the second connection comes after everything that the first one caused
    for (int look = 0; look < 2; ++look) {
      ASSERT_TRUE(WaitFor([&] { return UniqueFd(accept(other->fd(), nullptr, nullptr)).valid(); }));
    }
    EXPECT_EQ(counters_.rebinds, 0u);
  }
  EXPECT_TRUE(WaitFor([&] { return counters_.rebinds == 1; })) << "it is free again";
}

TEST(ListenSocketTest, ReportsWhyPathIsUnusable) {
  TempDir dir;
  EXPECT_THAT(ListenSocket::Bind(dir.File(std::string(108, 'x'))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("1 to 107; choose another one with --listen: " + dir.path())));
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  EXPECT_THAT(ListenSocket::Bind(dir.File("s")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       dir.path() + " is accessible to other users; run: chmod 700 " + dir.path()));
  EXPECT_OK(ListenSocket::Bind(dir.File("made/s")));
  ASSERT_EQ(chmod(dir.path().c_str(), 01777), 0);
  EXPECT_THAT(ListenSocket::Bind(dir.File("s")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       dir.path() + " is shared with other users; choose a directory of your own "
                                    "with --listen"));
}

TEST(ListenSocketTest, KeepsFilesOfTheUser) {
  TempDir dir;
  std::ofstream(dir.File("thesis")) << "my only copy";
  EXPECT_THAT(ListenSocket::Bind(dir.File("thesis")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       dir.File("thesis") + " is a file of this user, not a socket; choose another "
                                            "path with --listen"));
  EXPECT_EQ(std::filesystem::file_size(dir.File("thesis")), 12u);
}

TEST(ListenSocketTest, NoChmodOfDirectoryWithOtherFiles) {
  TempDir dir;
  std::ofstream(dir.File("other"));
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  EXPECT_THAT(ListenSocket::Bind(dir.File("s")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       dir.path() + " is accessible to other users; choose a directory of your "
                                    "own, without other files"));
}

TEST(ListenSocketTest, AStaleFileIsReplaced) {
  TempDir dir;
  {
    const UniqueFd dead(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    dir.File("s").copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  auto socket = ListenSocket::Bind(dir.File("s"));
  ASSERT_OK(socket);
  Connect(dir.File("s"));
}

}  // namespace
}  // namespace ranklog::ingest
