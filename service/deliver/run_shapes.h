// The keys of a run's rows, as far as a delivery has read them.

#ifndef SERVICE_DELIVER_RUN_SHAPES_H_
#define SERVICE_DELIVER_RUN_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/model/batch.h"
#include "service/storage/store_reader.h"

namespace ranklog::deliver {

// Reads `shapes`, as StoreReader::RunShapes() returns them, again if `batch` has a newer one.
absl::Status ReadShapes(storage::StoreReader& reader, int64_t run, const model::Batch& batch,
                        std::vector<std::vector<std::string>>* shapes);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_RUN_SHAPES_H_
