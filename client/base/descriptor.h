#ifndef CLIENT_BASE_DESCRIPTOR_H_
#define CLIENT_BASE_DESCRIPTOR_H_

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace ranklog::internal {

// Moves a new descriptor of this library (or -1) above 2 if it is 0, 1 or 2. A program that was
// started with its stderr closed still writes to descriptor 2. Returns -1, with errno set and `fd`
// closed, if no other descriptor is free.
inline int AboveStandard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

// Closes a descriptor, or -1.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(AboveStandard(fd)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_DESCRIPTOR_H_
