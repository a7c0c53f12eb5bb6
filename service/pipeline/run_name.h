#ifndef SERVICE_PIPELINE_RUN_NAME_H_
#define SERVICE_PIPELINE_RUN_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

// The name of a run in the log: its id, as in `ranklog runs`. If the run cannot be read, its number
// in the store.
inline std::string RunName(storage::StoreReader& reader, int64_t run) {
  const absl::StatusOr<model::Run> read = reader.GetRun(run);
  return read.ok() ? read->run_id : absl::StrCat("number ", run, " of the store");
}

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_RUN_NAME_H_
