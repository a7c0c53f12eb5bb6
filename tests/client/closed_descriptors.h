#ifndef TESTS_CLIENT_CLOSED_DESCRIPTORS_H_
#define TESTS_CLIENT_CLOSED_DESCRIPTORS_H_

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace ranklog::testing {

// Closes the descriptors 0, 1 and 2 during its lifetime, as for a program that is started with
// `2>&-`.
class ClosedDescriptors {
 public:
  ClosedDescriptors() {
    for (int fd = 0; fd < 3; ++fd) {
      kept_[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
      close(fd);
    }
  }
  ~ClosedDescriptors() {
    for (int fd = 0; fd < 3; ++fd) {
      if (kept_[fd] >= 0) {
        dup2(kept_[fd], fd);
        close(kept_[fd]);
      } else {
        close(fd);
      }
    }
  }
  // Whether nothing has taken one of them.
  bool AreClosed() const {
    for (int fd = 0; fd < 3; ++fd) {
      if (fcntl(fd, F_GETFD) != -1) return false;
    }
    return true;
  }

 private:
  std::array<int, 3> kept_;
};

}  // namespace ranklog::testing

#endif  // TESTS_CLIENT_CLOSED_DESCRIPTORS_H_
