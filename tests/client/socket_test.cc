// Finding a daemon's socket, and passing a descriptor to it.

#include "client/stream/socket/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "client/ring/spool/spool.h"
#include "client/stream/socket/connection.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/client/closed_descriptors.h"
#include "tests/support/absent.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::internal {
namespace {

using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::HasSubstr;

int Listen(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd, 4), 0);
  return fd;
}

TEST(SocketTest, MissingSocketIsNotFound) {
  TempDir dir;
  size_t answered;
  EXPECT_THAT(Connect(SocketPlaces("unix:" + dir.File("sock")), &answered),
              StatusIs(absl::StatusCode::kNotFound));
  close(Listen(dir.File("sock")));  // the file stays, but no process listens
  EXPECT_THAT(Connect(SocketPlaces("unix:" + dir.File("sock")), &answered),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(SocketTest, TakesNoStandardDescriptor) {
  TempDir dir;
  const int listener = Listen(dir.File("sock"));
  bool left_closed;
  {
    const testing::ClosedDescriptors closed;
    size_t answered;
    const auto fd = Connect(SocketPlaces("unix:" + dir.File("sock")), &answered);
    left_closed = fd.ok() && closed.AreClosed();
    if (fd.ok()) close(*fd);
  }
  EXPECT_TRUE(left_closed);
  close(listener);
}

// Otherwise the daemon would get what the program writes to stderr. In a child, because gRPC's
// other descriptors may be standard ones, and must stay.
TEST(SocketTest, ConnectionTakesNoStandardDescriptor) {
  TempDir dir;
  const int listener = Listen(dir.File("sock"));
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    size_t answered;
    const auto fd = Connect(SocketPlaces("unix:" + dir.File("sock")), &answered);
    if (!fd.ok()) _exit(9);
    const Connection connection(*fd);
    int sockets = 0;
    for (int standard = 0; standard < 3; ++standard) {
      struct stat info;
      sockets += fstat(standard, &info) == 0 && S_ISSOCK(info.st_mode);
    }
    _exit(sockets);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(listener);
}

TEST(SocketTest, TakesTheFirstPlaceThatAnswers) {
  TempDir dir;
  const int listener = Listen(dir.File("second"));
  std::vector<SocketLocation> places = {{dir.File("first"), {dir.path(), false}, false},
                                        {dir.File("second"), {dir.path(), false}, false}};
  size_t answered = 9;
  ASSERT_OK_AND_ASSIGN(const int fd, Connect(places, &answered));
  EXPECT_EQ(answered, 1u);
  close(fd);
  // A directory that others can write may contain another user's socket.
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0);
  EXPECT_THAT(Connect(places, &answered), StatusIs(absl::StatusCode::kNotFound));
  close(listener);
}

// A daemon that is started listens there.
TEST(SocketTest, ErrorNamesFirstUsablePlace) {
  TempDir dir;
  const auto in = [&dir](const std::string& name) {
    return SocketLocation{dir.File(name + "/d.sock"), {dir.File(name), name != "absent"}, false};
  };
  ASSERT_EQ(mkdir(dir.File("last").c_str(), 0700), 0);
  size_t answered;
  EXPECT_THAT(Connect({in("absent"), in("first"), in("last")}, &answered),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("no daemon answers at unix:" + dir.File("first/d.sock"))));
}

// The client sends API keys to a daemon, so it must not talk to another user's.
TEST(SocketTest, AnotherUsersDaemonGetsNothing) {
  SKIP_WITHOUT(geteuid() == 0, "root, to become another user");
  TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 01777), 0);
  const std::string path = dir.File("sock");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t other = fork();
  if (other == 0) {
    alarm(60);
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    const int listener = Listen(path);
    if (write(ready[1], "y", 1) != 1) _exit(1);
    char byte;
    const int connection = accept(listener, nullptr, nullptr);
    _exit(recv(connection, &byte, 1, 0) == 0 ? 0 : 1);  // end of stream without any data
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  size_t answered;
  // Not even if the user names the path: in /tmp, any user may own it.
  EXPECT_THAT(Connect(SocketPlaces("unix:" + path), &answered),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("belongs to another user")));
  int status = -1;
  EXPECT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

TEST(SocketTest, PassesADescriptorWithTheIncarnation) {
  TempDir dir;
  const int listener = Listen(dir.File("sock"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Spool> spool,
                       Spool::Create({dir.path(), v1::kMinRingBytes}, v1::Hello()));
  ASSERT_OK_AND_ASSIGN(const int passing,
                       PassDescriptor(SocketPlaces("unix:" + dir.File("sock"))[0],
                                      0x0102030405060708, spool->fd(), "hi"));
  const int connection = accept(listener, nullptr, nullptr);
  char bytes[32] = {};
  iovec data = {bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ASSERT_EQ(recvmsg(connection, &message, MSG_CMSG_CLOEXEC), 22);
  EXPECT_EQ(std::string(bytes, 22),
            std::string("RLSPOOL1\x08\x07\x06\x05\x04\x03\x02\x01\x02\0\0\0hi", 22));
  ASSERT_NE(CMSG_FIRSTHDR(&message), nullptr);
  int passed = -1;
  memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
  struct stat ours, theirs;
  ASSERT_EQ(fstat(spool->fd(), &ours), 0);
  ASSERT_EQ(fstat(passed, &theirs), 0);
  EXPECT_EQ(ours.st_ino, theirs.st_ino);
  close(passed);
  close(passing);
  close(connection);
  close(listener);
}

TEST(SpoolTest, IsLockedByItsProcessOnly) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Spool> spool,
                       Spool::Create({dir.path(), v1::kMinRingBytes}, v1::Hello()));
  int answer[2];
  ASSERT_EQ(pipe(answer), 0);
  const pid_t child = fork();
  if (child == 0) {  // sees the parent's lock
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    fcntl(spool->fd(), F_GETLK, &lock);
    const pid_t holder = lock.l_type == F_UNLCK ? 0 : lock.l_pid;
    _exit(write(answer[1], &holder, sizeof holder) == sizeof holder ? 0 : 1);
  }
  pid_t holder = 0;
  ASSERT_EQ(read(answer[0], &holder, sizeof holder), static_cast<ssize_t>(sizeof holder));
  EXPECT_EQ(holder, getpid());
  close(answer[0]);
  close(answer[1]);
}

TEST(SpoolTest, SkipsDirectoryWritableByOthers) {
  TempDir dir;
  ASSERT_EQ(chmod(dir.path().c_str(), 0777), 0);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Spool> spool,
                       Spool::Create({dir.path(), v1::kMinRingBytes}, v1::Hello()));
  EXPECT_EQ(spool->path().find(dir.path()), std::string::npos);
  spool->Unlink();
}

TEST(SpoolTest, RefusesOversizedHello) {
  TempDir dir;
  v1::Hello hello;
  hello.mutable_settings()->set_notes(std::string(v1::kSpoolHelloBytes, 'n'));
  EXPECT_THAT(Spool::Create({dir.path(), v1::kMinRingBytes}, hello),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ranklog::internal
