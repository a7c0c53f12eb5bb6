// Deliveries that crash whoever makes them: found out at the start, and set apart.

#ifndef SERVICE_PIPELINE_CRASHED_DELIVERIES_H_
#define SERVICE_PIPELINE_CRASHED_DELIVERIES_H_

#include <string>

#include "service/storage/store.h"

namespace ranklog::pipeline {

// Takes the marks that a crash of an earlier process left (crash_marks.h), and counts them in
// `store`, of `state_dir`. A delivery that has two in a row, without an orderly stop of a daemon
// between them, is set apart: its `last_error` says so, and what to do. What another version set
// apart gets one more try. Called before the first delivery, by the holder of the state directory's
// lock, outside of a transaction.
//
// Logs what it finds, and what it cannot do: nothing else depends on it.
void CountCrashedDeliveries(const std::string& state_dir, storage::Store& store);

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_CRASHED_DELIVERIES_H_
