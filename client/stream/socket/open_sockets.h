// The sockets of this process, which a forked child must not keep. While a child holds one open, the
// daemon does not see that this process has closed it.

#ifndef CLIENT_STREAM_SOCKET_OPEN_SOCKETS_H_
#define CLIENT_STREAM_SOCKET_OPEN_SOCKETS_H_

#include "absl/base/thread_annotations.h"
#include "client/base/process.h"

namespace ranklog::internal {

// Notes the socket `fd`. `duplicate`: a second descriptor of it, which others may close at any time;
// -1: none.
void AddSocket(int fd, int duplicate = -1) ABSL_LOCKS_EXCLUDED(StateMutex());

// False if the program has closed `fd`; it may have opened another with this number.
bool IsSocket(int fd) ABSL_LOCKS_EXCLUDED(StateMutex());

// Forgets and closes `fd`, unless the program has closed it.
void CloseSocket(int fd) ABSL_LOCKS_EXCLUDED(StateMutex());

// Called by the fork handler in the child, while it has one thread: closes the parent's sockets.
void CloseInheritedSockets();

}  // namespace ranklog::internal

#endif  // CLIENT_STREAM_SOCKET_OPEN_SOCKETS_H_
