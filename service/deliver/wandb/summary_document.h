// A run's summary as W&B keeps it.

#ifndef SERVICE_DELIVER_WANDB_SUMMARY_DOCUMENT_H_
#define SERVICE_DELIVER_WANDB_SUMMARY_DOCUMENT_H_

#include <cstdint>
#include <string>

#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// The JSON text of wandb-summary.json: `summary` of RunSummary::ToJson(), `_runtime`, `_wandb`, and
// `ranklog/rows_lost` where `lost_rows` is not zero: the rows that the run's ranks logged and that
// are not among the run's lines here, for whatever reason. One that would be longer than
// `max_bytes` has null in place of its longest texts.
std::string SummaryDocument(const model::Run& run, model::Json summary, uint64_t lost_rows,
                            size_t max_bytes);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_SUMMARY_DOCUMENT_H_
