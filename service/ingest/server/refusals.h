// Counts what the daemon refuses, and logs the first refusal of each kind.

#ifndef SERVICE_INGEST_SERVER_REFUSALS_H_
#define SERVICE_INGEST_SERVER_REFUSALS_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "service/ingest/ingest_context.h"
#include "service/model/session.h"

namespace ranklog::ingest {

// The counter for a message that was refused because of `why`. RESOURCE_EXHAUSTED means too many
// shapes if the stream is attached, and too many streams before that.
std::atomic<uint64_t>& RefusalCounter(IngestCounters& counters, const absl::Status& why,
                                      bool other_version, bool attached);

// Adds 1. Logs only the first refusal, because a client may retry forever.
void CountRefusal(std::atomic<uint64_t>& counter, const model::StreamKey& key,
                  const absl::Status& why);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_REFUSALS_H_
