// The counters of all parts of the daemon, by the names that `ranklog status --json` and the
// metrics have for them.

#ifndef SERVICE_DAEMON_METRICS_DAEMON_COUNTERS_H_
#define SERVICE_DAEMON_METRICS_DAEMON_COUNTERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "service/ingest/ingest_context.h"
#include "service/ingest/server/acceptor.h"
#include "service/peer/peering.h"
#include "service/pipeline/aggregate_loop.h"
#include "service/pipeline/delivery/deliver_loop.h"
#include "service/pipeline/retention_loop.h"
#include "service/pipeline/sample_loop.h"
#include "service/pipeline/store_loop.h"

namespace ranklog::daemon {

std::map<std::string, uint64_t> NamedCounters(const ingest::Acceptor::Counters& accept,
                                              const ingest::IngestCounters& ingest,
                                              const pipeline::StoreLoop::Counters& store,
                                              const pipeline::AggregateLoop::Counters& aggregate,
                                              const pipeline::DeliverLoop::Counters& deliver,
                                              const pipeline::RetentionLoop::Counters& retention,
                                              const pipeline::SampleLoop::Counters& samples,
                                              const peer::Peering::State& peers);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_METRICS_DAEMON_COUNTERS_H_
