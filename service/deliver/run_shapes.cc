#include "service/deliver/run_shapes.h"

#include <algorithm>
#include <utility>

#include "service/base/status_macros.h"

namespace ranklog::deliver {

absl::Status ReadShapes(storage::StoreReader& reader, int64_t run, const model::Batch& batch,
                        std::vector<std::vector<std::string>>* shapes) {
  const bool known =
      std::all_of(batch.blocks.begin(), batch.blocks.end(),
                  [&](const model::Block& block) { return block.shape < shapes->size(); });
  if (known) return absl::OkStatus();
  ASSIGN_OR_RETURN(*shapes, reader.RunShapes(run));
  return absl::OkStatus();
}

}  // namespace ranklog::deliver
