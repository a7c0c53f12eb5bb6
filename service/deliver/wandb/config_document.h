// A run's config as W&B stores it, including the metric definitions.

#ifndef SERVICE_DELIVER_WANDB_CONFIG_DOCUMENT_H_
#define SERVICE_DELIVER_WANDB_CONFIG_DOCUMENT_H_

#include <string>

#include "absl/types/span.h"
#include "service/aggregate/metric_table.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// The list `_wandb.m`: one object per definition, whose members are named by the field numbers of
// W&B's MetricRecord. A step metric is referred to by its 1-based position in the list. So each
// step metric has an entry, even without a definition of its own.
//
// `expand_globs` replaces each glob by one definition for each matching key of `keys`, for servers
// without support for globs.
model::Json MetricList(const aggregate::MetricTable& table, bool expand_globs,
                       absl::Span<const std::string> keys);

// The JSON text for UpsertBucket: every member of `config` wrapped as {"value": ...}, and the
// `_wandb` member. Without that member, a server treats the run as one that never started.
std::string ConfigDocument(const model::Json& config, const model::Json& metric_list);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_CONFIG_DOCUMENT_H_
