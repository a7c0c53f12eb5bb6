#include "service/ingest/rank_ring.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace ranklog::ingest {

std::shared_ptr<const RingFile> OpenRankRing(const v1::Hello& hello, const Peer* peer,
                                             IngestCounters& counters) {
  if (peer == nullptr) return nullptr;
  absl::StatusOr<std::shared_ptr<const RingFile>> opened =
      RingFile::OpenClaimed(hello.ring(), *peer);
  if (opened.ok()) return *std::move(opened);
  ++counters.unseen_rings;
  spdlog::debug("rank {} of {}: {}", hello.stream().rank(), hello.stream().job_id(),
                opened.status().ToString());
  return nullptr;
}

absl::Status RememberDirOf(const RingFile* ring, storage::SpoolDirs* dirs) {
  if (dirs == nullptr || ring == nullptr || ring->path().empty()) return absl::OkStatus();
  return dirs->Remember(ring->path());
}

}  // namespace ranklog::ingest
