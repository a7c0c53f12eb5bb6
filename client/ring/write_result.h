// The results of a row or an update: taken, or why it was refused.

#ifndef CLIENT_RING_WRITE_RESULT_H_
#define CLIENT_RING_WRITE_RESULT_H_

#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {

enum class WriteResult {
  kTaken,
  kRingFull,
  kInvalid,
  kStepBehind,
  kTooLarge,
  kAfterFinish,
  kInterrupting,  // a signal handler called while its thread is in a call; counts as invalid
};

// Why a row was refused, as text for the user. Empty for kTaken. Also empty for kInvalid: see
// RingWriter::reason().
const char* WhyRefused(WriteResult outcome);

// Counts a refused row in the loss counter of the spool. Does nothing for kTaken. A signal handler
// may call it.
void CountLoss(WriteResult outcome, v1::SpoolHeader& spool);

}  // namespace ranklog::internal

#endif  // CLIENT_RING_WRITE_RESULT_H_
