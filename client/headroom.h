// Whether this process has left what gRPC needs. gRPC ends the process where it gets no descriptor
// or no memory, so the sender asks before it lets gRPC do anything, and waits if there is too
// little.
//
// Only looks: what it took for itself to be sure would be missing elsewhere in the trainer.

#ifndef CLIENT_HEADROOM_H_
#define CLIENT_HEADROOM_H_

#include <cstddef>

#include "absl/status/status.h"

namespace ranklog::internal {

// OK: a connection can be made: descriptors, and memory for gRPC's threads.
//   kResourceExhausted   says of what there is too little, and which limit to raise
absl::Status HasRoomToConnect();

// OK: messages with `bytes` of rows can be sent and answered. Costs a system call where the address
// space is not limited, and a read of /proc where it is.
//   kResourceExhausted   as above
absl::Status HasRoomToSend(size_t bytes);

}  // namespace ranklog::internal

#endif  // CLIENT_HEADROOM_H_
