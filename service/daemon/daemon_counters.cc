#include "service/daemon/daemon_counters.h"

namespace ranklog::daemon {

std::map<std::string, uint64_t> NamedCounters(const ingest::Acceptor::Counters& accept,
                                              const ingest::IngestCounters& ingest,
                                              const pipeline::StoreLoop::Counters& store,
                                              const pipeline::AggregateLoop::Counters& aggregate,
                                              const pipeline::DeliverLoop::Counters& deliver,
                                              const pipeline::RetentionLoop::Counters& retention) {
  return {
      {"accept.accepted", accept.accepted},
      {"accept.refused_user", accept.refused_user},
      {"accept.refused_protocol", accept.refused_protocol},
      {"accept.descriptors", accept.descriptors},
      {"accept.shortages", accept.shortages},
      {"accept.rebinds", accept.rebinds},
      {"ingest.attaches", ingest.attaches},
      {"ingest.batches", ingest.batches},
      {"ingest.unreadable_items", ingest.unreadable_items},
      {"ingest.rows", ingest.rows},
      {"ingest.refused_messages", ingest.refused_messages},
      {"ingest.refused_too_large", ingest.refused_too_large},
      {"ingest.refused_shapes", ingest.refused_shapes},
      {"ingest.refused_streams", ingest.refused_streams},
      {"ingest.paused_streams", ingest.paused_streams},
      {"ingest.unseen_rings", ingest.unseen_rings},
      {"ingest.orphans", ingest.orphans},
      {"ingest.orphan_rows", ingest.orphan_rows},
      {"ingest.refused_versions", ingest.refused_versions},
      {"ingest.damaged_rings", ingest.damaged_rings},
      {"ingest.left_rings", ingest.unreadable_rings},
      {"store.writes", store.writes},
      {"store.refused_writes", store.refused_writes},
      {"store.commits", store.commits},
      {"store.failed_commits", store.failed_commits},
      {"store.failing", store.last_error.empty() ? 0u : 1u},
      {"store.checkpoints", store.checkpoints},
      {"store.removed_runs", retention.removed_runs},
      {"store.removed_rows", retention.removed_rows},
      {"store.removed_bytes", retention.removed_bytes},
      {"aggregate.live_runs", aggregate.live_runs},
      {"aggregate.made_rows", aggregate.made_rows},
      {"aggregate.late_rows", aggregate.late_rows},
      {"aggregate.errors", aggregate.errors},
      {"deliver.steps", deliver.steps},
      {"deliver.pending", deliver.pending},
      {"deliver.failing", deliver.failing},
      {"deliver.dead_letters", deliver.dead_letters},
      {"deliver.set_apart", deliver.set_apart},
  };
}

}  // namespace ranklog::daemon
