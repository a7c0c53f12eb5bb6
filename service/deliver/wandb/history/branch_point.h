// The setting `fork_from` of a run: where in another run it begins.

#ifndef SERVICE_DELIVER_WANDB_HISTORY_BRANCH_POINT_H_
#define SERVICE_DELIVER_WANDB_HISTORY_BRANCH_POINT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

inline constexpr char kForkFrom[] = "fork_from";  // the official client's name

struct BranchPoint {
  std::string run_id;  // of the other run, in the same project
  int64_t step = 0;    // the last step that this run takes over; its own rows have larger ones
};

// From RUN?_step=N, as the official client writes it. N is between 0 and 2^63 - 2.
//   kInvalidArgument  not such a text
absl::StatusOr<BranchPoint> ParseBranchPoint(absl::string_view text);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_HISTORY_BRANCH_POINT_H_
