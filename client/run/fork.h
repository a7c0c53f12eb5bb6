// Lets the process fork while it has runs.

#ifndef CLIENT_RUN_FORK_H_
#define CLIENT_RUN_FORK_H_

namespace ranklog::internal {

// Installs the fork handlers at the first call. Call this before the process has a sender.
void ArmForkHandlers();

}  // namespace ranklog::internal

#endif  // CLIENT_RUN_FORK_H_
