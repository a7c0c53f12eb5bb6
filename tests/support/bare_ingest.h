// An ingest context without extras: no rank sends a key, no callback is called, and no rank has
// died.

#ifndef TESTS_SUPPORT_BARE_INGEST_H_
#define TESTS_SUPPORT_BARE_INGEST_H_

#include "service/ingest/ingest_context.h"

namespace ranklog::testing {

inline ingest::IngestContext BareIngest(pipeline::StoreLoop* store, ingest::Attacher* attacher,
                                        ingest::StreamRegistry* registry,
                                        ingest::IngestCounters* counters) {
  return {.store = store,
          .attacher = attacher,
          .registry = registry,
          .peers = nullptr,
          .counters = counters,
          .credentials = {.remember = [](const auto&, const auto&) {},
                          .usual_destination = [](const auto&) { return "local"; }},
          .run_attached = [](int64_t) {},
          .run_changed = [](int64_t) {},
          .when_caught_up = [](auto then) { then(); }};
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_BARE_INGEST_H_
