// A process of some user of the node. It tries everything that it could do with each of the paths.
//
//   other_user UID PATH...
//
// Prints a line for each thing that it could do: "reads PATH", "writes PATH" (it could open the
// file for writing), "makes files in PATH", "connects to PATH". "is heard at PATH" means that the
// daemon's gRPC server answered. It changes nothing.

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void TryToOpen(const std::string& path, int flags, const char* what) {
  const int fd = open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  printf("%s %s\n", what, path.c_str());
  close(fd);
}

void TryToMakeAFile(const std::string& directory) {
  const std::string path = directory + "/made-by-another";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  printf("makes files in %s\n", directory.c_str());
  close(fd);
  unlink(path.c_str());
}

// Begins like a gRPC client. A server answers with its settings; a refused client reads the end of
// the stream.
bool IsReachable(int fd) {
  const std::string begin =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9);
  if (send(fd, begin.data(), begin.size(), MSG_NOSIGNAL) < 0) return false;
  pollfd answer = {fd, POLLIN, 0};
  char byte = 0;
  if (poll(&answer, 1, 60'000) != 1) {
    printf("neither heard nor refused\n");
    return false;
  }
  return recv(fd, &byte, 1, 0) == 1;
}

void TryToConnect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    printf("connects to %s\n", path.c_str());
    if (IsReachable(fd)) printf("is heard at %s\n", path.c_str());
  }
  close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const uid_t uid = static_cast<uid_t>(atoi(argv[1]));
  if (setgroups(0, nullptr) != 0 || setgid(uid) != 0 || setuid(uid) != 0) {
    perror("become another user");
    return 1;
  }
  for (int i = 2; i < argc; ++i) {
    const std::string path = argv[i];
    TryToOpen(path, O_RDONLY, "reads");
    TryToOpen(path, O_WRONLY, "writes");
    TryToMakeAFile(path);
    TryToConnect(path);
  }
  return 0;
}
