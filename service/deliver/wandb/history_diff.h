// Holds a run's history as a server hands it out against the lines that were to be there.

#ifndef SERVICE_DELIVER_WANDB_HISTORY_DIFF_H_
#define SERVICE_DELIVER_WANDB_HISTORY_DIFF_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace ranklog::deliver::wandb {

// A line that is to be there, for the row of this index.
struct ExpectedLine {
  uint64_t row = 0;
  int64_t step = 0;
  std::string line = "";
  // The same with what StepSync adds by all definitions. A row that was sent before a definition
  // came lacks it, so each added member may be there or not; empty: as `line`.
  std::string with_added = "";
  bool bare = false;  // stands for a row that was refused
};

struct HistoryDiff {
  struct Rows {  // [first, last]
    uint64_t first;
    uint64_t last;
  };
  struct Difference {
    uint64_t row;
    std::string text;  // which member, what it is, and what it was to be
  };
  static constexpr size_t kKept = 20;  // of gaps and of differences; the counts are of all

  uint64_t there = 0;       // rows whose line is there and the same
  uint64_t bare = 0;        // refused rows whose bare line is there
  uint64_t missing = 0;     // rows without a line
  uint64_t differing = 0;   // rows with a line that is not the same
  uint64_t duplicates = 0;  // lines that are there once more
  uint64_t unexpected = 0;  // lines with a step that no row has, or not of the form of a line
  std::vector<Rows> gaps;   // of the missing, ascending
  std::vector<Difference> differences;

  uint64_t lines() const { return there + bare + differing + duplicates + unexpected; }
};

// Adds to `diff` what becomes of `expected`, whose steps grow, when the server hands out `lines`
// for their range of steps, in whatever order. Values are compared as values: 1 is 1.0, and the
// bare word NaN is the text "NaN", as which servers hand it out. Members with a leading underscore
// that are not expected are the server's own.
//
// `shared`: the run had lines before ours, which may have the same steps; lines that are not ours
// are theirs then.
void AddPage(absl::Span<const ExpectedLine> expected, absl::Span<const std::string> lines,
             bool shared, HistoryDiff* diff);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_HISTORY_DIFF_H_
