#include "service/ingest/server/refusals.h"

#include <spdlog/spdlog.h>

#include <string>

namespace ranklog::ingest {

std::atomic<uint64_t>& RefusalCounter(IngestCounters& counters, const absl::Status& why,
                                      bool other_version, bool attached) {
  if (other_version) return counters.refused_versions;
  if (!absl::IsResourceExhausted(why)) return counters.refused_messages;
  return attached ? counters.refused_shapes : counters.refused_streams;
}

void CountRefusal(std::atomic<uint64_t>& counter, const model::StreamKey& key,
                  const absl::Status& why) {
  if (counter++ > 0) return;
  spdlog::warn("refused rank {} of {}: {}; further refusals are only counted, see `ranklog status`",
               key.rank, key.job_id, std::string(why.message()));
}

}  // namespace ranklog::ingest
