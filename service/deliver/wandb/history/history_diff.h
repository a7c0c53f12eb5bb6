// Compares a run's history at the server with the expected lines.

#ifndef SERVICE_DELIVER_WANDB_HISTORY_HISTORY_DIFF_H_
#define SERVICE_DELIVER_WANDB_HISTORY_HISTORY_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/deliver/read_back.h"

namespace ranklog::deliver::wandb {

// The expected line of the row with this index.
struct ExpectedLine {
  uint64_t row = 0;
  int64_t step = 0;
  std::string line = "";
  // The same line with all values that StepSync adds under all definitions. A row that was sent
  // before a definition arrived lacks its value, so each added member is optional. Empty: same as
  // `line`.
  std::string with_added = "";
  bool bare = false;  // a bare line for a refused row
};

// Compares `expected`, whose steps increase, with `lines`, which the server returned for the same
// range of steps in any order. Adds the result to `diff`. Numbers are compared by value: 1 equals
// 1.0. The bare word NaN equals the string "NaN", which is how servers return it. Unexpected
// members with a leading underscore belong to the server.
//
// `shared`: the run had lines before ours, possibly with the same steps. Lines that are not ours
// then belong to others.
void AddPage(absl::Span<const ExpectedLine> expected, absl::Span<const std::string> lines,
             bool shared, HistoryDiff* diff);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_HISTORY_HISTORY_DIFF_H_
