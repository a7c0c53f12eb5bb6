#ifndef CLIENT_BASE_DESCRIPTOR_H_
#define CLIENT_BASE_DESCRIPTOR_H_

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace ranklog::internal {

// For a new descriptor (or -1) that this library keeps. Moves it if it is 0, 1 or 2: a program that
// was started with its stderr closed still writes to descriptor 2. Returns -1, with errno set and
// `fd` closed, if there is no other descriptor.
inline int AboveStandard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_DESCRIPTOR_H_
