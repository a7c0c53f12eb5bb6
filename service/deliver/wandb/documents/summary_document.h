// A run's summary as W&B stores it.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENTS_SUMMARY_DOCUMENT_H_
#define SERVICE_DELIVER_WANDB_DOCUMENTS_SUMMARY_DOCUMENT_H_

#include <cstdint>
#include <string>

#include "service/deliver/wandb/history/run_clock.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// The JSON text of wandb-summary.json: `summary` from RunSummary::ToJson(), the members of `before`
// that it lacks, `_runtime`, `_wandb`, `ranklog/rows_lost` if `lost_rows` is not zero, and
// `ranklog/end` if the run's end has a reason. `before` is the summary of other programs that have
// written to the run. `lost_rows` counts the rows that the run's ranks logged but that are not among
// the run's lines, for any reason. An imported run keeps its own `_runtime` and `_wandb.runtime`. If the text would exceed `max_bytes`, its longest members become
// null.
std::string SummaryDocument(const model::Run& run, const RunClock& clock, model::Json summary,
                            const model::Json& before, uint64_t lost_rows, size_t max_bytes);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENTS_SUMMARY_DOCUMENT_H_
