// The results that are stored for deliveries whose tracker does not answer.

#ifndef SERVICE_PIPELINE_DELIVERY_SILENCE_RESULTS_H_
#define SERVICE_PIPELINE_DELIVERY_SILENCE_RESULTS_H_

#include <vector>

#include "absl/time/time.h"
#include "service/deliver/run_delivery.h"
#include "service/pipeline/delivery/delivery_tasks.h"
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

struct SilenceResult {
  DeliveryTasks::Silent silent;
  deliver::StepResult result;  // its `last_error` has the start of the silence
};

// One result for each of the tasks that has rows to send. Leaves out tasks that the store has
// nothing of, and those that cannot be read. `wall_minus_steady` converts times of the tasks' clock
// to those of the wall clock.
std::vector<SilenceResult> SilenceResults(storage::StoreReader& reader,
                                          const std::vector<DeliveryTasks::Silent>& tasks,
                                          absl::Duration wall_minus_steady);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_SILENCE_RESULTS_H_
