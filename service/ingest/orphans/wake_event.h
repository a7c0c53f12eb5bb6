// Wakes a thread that waits for descriptors with epoll.

#ifndef SERVICE_INGEST_ORPHANS_WAKE_EVENT_H_
#define SERVICE_INGEST_ORPHANS_WAKE_EVENT_H_

#include <sys/eventfd.h>

#include "service/base/unique_fd.h"

namespace ranklog::ingest {

// Thread-safe. Without a free descriptor, fd() is invalid and the calls have no effect.
class WakeEvent {
 public:
  void Notify() const { eventfd_write(fd_.get(), 1); }
  void Clear() const {
    eventfd_t ignored;
    eventfd_read(fd_.get(), &ignored);
  }
  int fd() const { return fd_.get(); }

 private:
  const UniqueFd fd_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_WAKE_EVENT_H_
