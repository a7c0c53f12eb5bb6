// A run's config as W&B keeps it, with the metric definitions in it.

#ifndef SERVICE_DELIVER_WANDB_CONFIG_DOCUMENT_H_
#define SERVICE_DELIVER_WANDB_CONFIG_DOCUMENT_H_

#include <string>

#include "absl/types/span.h"
#include "service/aggregate/metric_table.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// The list `_wandb.m`: an object per definition, its members named by the field numbers of W&B's
// MetricRecord. Step metrics are named by their 1-based place in the list, so each has an entry
// though nobody defined it.
//
// `expand_globs` replaces the globs by a definition for each of `keys` that they fit; for servers
// that do not know globs.
model::Json MetricList(const aggregate::MetricTable& table, bool expand_globs,
                       absl::Span<const std::string> keys);

// The JSON text for UpsertBucket: every member of `config` wrapped as {"value": ...}, and the
// `_wandb` member without which a server takes the run for one that never began.
std::string ConfigDocument(const model::Json& config, const model::Json& metric_list);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_CONFIG_DOCUMENT_H_
