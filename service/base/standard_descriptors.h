#ifndef SERVICE_BASE_STANDARD_DESCRIPTORS_H_
#define SERVICE_BASE_STANDARD_DESCRIPTORS_H_

#include <fcntl.h>
#include <unistd.h>

namespace ranklog {

// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed. Call this first in main():
// otherwise a file or a socket gets such a number, and receives what is written to stderr. gRPC may
// have taken one for an eventfd before main(), but no text can be written to an eventfd.
inline void OpenStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDWR) != fd) return;
  }
}

}  // namespace ranklog

#endif  // SERVICE_BASE_STANDARD_DESCRIPTORS_H_
