// Finds deliveries that crash the process, at the start, and sets them apart.

#ifndef SERVICE_PIPELINE_DELIVERY_CRASHED_DELIVERIES_H_
#define SERVICE_PIPELINE_DELIVERY_CRASHED_DELIVERIES_H_

#include <string>

#include "service/storage/store.h"

namespace ranklog::pipeline {

// Takes the marks that crashes of earlier processes left (crash_marks.h), and counts them in
// `store`, which is the store in `state_dir`. A delivery with two crashes in a row, without an
// orderly stop of a daemon between them, is set apart. Its `last_error` states the reason and what
// to do. A delivery that another version set apart is tried once more.
//
// Call it before the first delivery, outside of a transaction, while holding the lock of the state
// directory. Logs its findings and its errors. Nothing else depends on its success.
void CountCrashedDeliveries(const std::string& state_dir, storage::Store& store);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_CRASHED_DELIVERIES_H_
