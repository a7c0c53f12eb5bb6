// The connection on which a forked child passes its ring: secrets first, then a byte for each time
// that it asks to read at once. May be closed.

#ifndef SERVICE_INGEST_ORPHANS_CHILD_CONNECTION_H_
#define SERVICE_INGEST_ORPHANS_CHILD_CONNECTION_H_

#include <map>
#include <string>
#include <utility>

#include "service/base/unique_fd.h"

namespace ranklog::ingest {

class ChildConnection {
 public:
  explicit ChildConnection(UniqueFd socket) : socket_(std::move(socket)) {}
  bool valid() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }

  // The secrets that came with the descriptor, all in one message.
  std::map<std::string, std::string> TakeCredentials() const;
  // Whether the process asks to read at once. Closes a connection that has ended, or on which more
  // comes than a process asks.
  bool TakeRequest();

 private:
  UniqueFd socket_;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_CHILD_CONNECTION_H_
