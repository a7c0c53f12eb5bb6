// The results of a row or an item: taken, with or without all its values, or why it was refused.

#ifndef CLIENT_RING_WRITE_RESULT_H_
#define CLIENT_RING_WRITE_RESULT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "ranklog/run.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {

enum class WriteResult {
  kTaken,
  // The reasons of a loss, in the order of kLossReasons.
  kInvalid,
  kStepBehind,
  kTooLarge,
  kRingFull,
  kAfterFinish,
  kInterrupting,  // a signal handler called while its thread is in a call; counts as kInvalid
  kTakenInPart,   // taken without some of its values; see RingWriter::left_out()
};

// Why rows are lost, and where they are counted: in the ring, in the public Stats, and in the
// message to the daemon.
struct LossReason {
  WriteResult result;
  const char* text;  // for the user; empty: see RingWriter::reason()
  std::atomic<uint64_t> v1::SpoolHeader::*in_ring;
  uint64_t Stats::*in_stats;
  void (v1::Losses::*report)(uint64_t rows);
};

// A new reason has its result, its row here, and its members in these three structs. The daemon's
// side is in ToLosses() and model::kLossReasons.
inline constexpr LossReason kLossReasons[] = {
    {WriteResult::kInvalid, "", &v1::SpoolHeader::lost_invalid, &Stats::lost_invalid,
     &v1::Losses::set_invalid},
    {WriteResult::kStepBehind, "a step is below the last one of its thread",
     &v1::SpoolHeader::lost_step_behind, &Stats::lost_step_behind, &v1::Losses::set_step_behind},
    {WriteResult::kTooLarge,
     "a row is larger than half of the spool; raise spool_bytes, or free space for the spool",
     &v1::SpoolHeader::lost_too_large, &Stats::lost_too_large, &v1::Losses::set_too_large},
    {WriteResult::kRingFull, "the spool is full", &v1::SpoolHeader::lost_ring_full,
     &Stats::lost_ring_full, &v1::Losses::set_ring_full},
    {WriteResult::kAfterFinish, "the run has finished", &v1::SpoolHeader::lost_after_finish,
     &Stats::lost_after_finish, &v1::Losses::set_after_finish},
};

// The index of the reason under which a refused row counts. `outcome` must not be kTaken or
// kTakenInPart.
constexpr size_t LossReasonIndex(WriteResult outcome) {
  return static_cast<size_t>(outcome == WriteResult::kInterrupting ? WriteResult::kInvalid
                                                                   : outcome) -
         1;
}

// Returns why a row was refused, as text for the user. Empty if it was taken. Also empty for
// kInvalid: see RingWriter::reason().
const char* RefusalReason(WriteResult outcome);

// Counts a refused row in the loss counter of the spool. Does nothing if it was taken. A signal
// handler may call it.
void CountLoss(WriteResult outcome, v1::SpoolHeader& spool);

}  // namespace ranklog::internal

#endif  // CLIENT_RING_WRITE_RESULT_H_
