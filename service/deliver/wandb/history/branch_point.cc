#include "service/deliver/wandb/history/branch_point.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ranklog::deliver::wandb {

absl::StatusOr<BranchPoint> ParseBranchPoint(absl::string_view text) {
  constexpr absl::string_view kStep = "?_step=";
  const size_t at = text.find(kStep);
  BranchPoint point;
  const bool valid = at != absl::string_view::npos && at > 0 &&
                     absl::SimpleAtoi(text.substr(at + kStep.size()), &point.step) &&
                     point.step >= 0 && point.step < std::numeric_limits<int64_t>::max();
  if (!valid) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not RUN?_step=N, such as 1mwk0j5x?_step=200"));
  }
  point.run_id = std::string(text.substr(0, at));
  return point;
}

}  // namespace ranklog::deliver::wandb
