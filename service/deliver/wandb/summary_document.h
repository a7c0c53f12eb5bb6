// A run's summary as W&B stores it.

#ifndef SERVICE_DELIVER_WANDB_SUMMARY_DOCUMENT_H_
#define SERVICE_DELIVER_WANDB_SUMMARY_DOCUMENT_H_

#include <cstdint>
#include <string>

#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// The JSON text of wandb-summary.json: `summary` from RunSummary::ToJson(), `_runtime`, `_wandb`,
// and `ranklog/rows_lost` if `lost_rows` is not zero. `lost_rows` counts the rows that the run's
// ranks logged but that are not among the run's lines, for any reason. If the text would exceed
// `max_bytes`, its longest members become null.
std::string SummaryDocument(const model::Run& run, model::Json summary, uint64_t lost_rows,
                            size_t max_bytes);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_SUMMARY_DOCUMENT_H_
