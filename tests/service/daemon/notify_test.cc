#include "service/daemon/notify.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

// The socket that systemd would give a service.
class NotifySocket {
 public:
  // `name`: as $NOTIFY_SOCKET has it.
  explicit NotifySocket(const std::string& name)
      : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0) << strerror(errno);
  }
  ~NotifySocket() { close(fd_); }

  // The datagram that lies there; "" if there is none.
  std::string Take() const {
    char bytes[64];
    const ssize_t size = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    return size < 0 ? "" : std::string(bytes, static_cast<size_t>(size));
  }

 private:
  const int fd_;
};

TEST(NotifyTest, ReachesASocketInTheFileSystem) {
  const testing::TempDir dir;
  const NotifySocket systemd(dir.File("notify"));
  NotifySystemd(dir.File("notify"), "READY=1");
  NotifySystemd(dir.File("notify"), "STOPPING=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
  EXPECT_EQ(systemd.Take(), "STOPPING=1");
}

TEST(NotifyTest, ReachesAnAbstractSocket) {
  const testing::TempDir dir;  // its name is nobody else's
  const NotifySocket systemd("@" + dir.path());
  NotifySystemd("@" + dir.path(), "READY=1");
  EXPECT_EQ(systemd.Take(), "READY=1");
}

TEST(NotifyTest, NobodyThereIsNoHarm) {
  const testing::TempDir dir;
  NotifySystemd("", "READY=1");
  NotifySystemd(dir.File("nobody"), "READY=1");
  NotifySystemd(dir.File(std::string(200, 'x')), "READY=1");  // no socket can have that name
  const NotifySocket full(dir.File("full"));
  for (int i = 0; i < 10'000; ++i) NotifySystemd(dir.File("full"), "READY=1");
  EXPECT_EQ(full.Take(), "READY=1");
}

}  // namespace
}  // namespace ranklog::daemon
