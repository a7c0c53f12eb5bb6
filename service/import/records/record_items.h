// Makes items of records that need nothing but themselves.

#ifndef SERVICE_IMPORT_RECORDS_RECORD_ITEMS_H_
#define SERVICE_IMPORT_RECORDS_RECORD_ITEMS_H_

#include "service/model/item.h"
#include "service/model/sample.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::imports {

// Its name and step metric keep W&B's form, in which a dot separates the names of nested keys.
model::MetricDefinition ToDefinition(const wandb_internal::MetricRecord& metric);

// Only numbers, in their order.
model::Sample ToSample(const wandb_internal::StatsRecord& stats);

// An object as proto/items.md describes it.
model::Json ToAlert(const wandb_internal::AlertRecord& alert);

// The members of W&B's wandb-metadata.json.
model::Json ToMetadata(const wandb_internal::EnvironmentRecord& environment);

// Unix time; 0: not given.
template <typename Record>
int64_t TimeOf(const Record& record) {
  return record.timestamp().seconds() * 1000000 + record.timestamp().nanos() / 1000;
}

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_RECORDS_RECORD_ITEMS_H_
