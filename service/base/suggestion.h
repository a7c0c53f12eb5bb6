// "Did you mean ...?": what a misspelt word may have been.

#ifndef SERVICE_BASE_SUGGESTION_H_
#define SERVICE_BASE_SUGGESTION_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ranklog {

// How many letters must be inserted, removed, replaced or swapped with their neighbour to make one
// word of the other (optimal string alignment).
inline size_t EditDistance(absl::string_view one, absl::string_view other) {
  std::vector<std::vector<size_t>> cost(one.size() + 1, std::vector<size_t>(other.size() + 1));
  for (size_t i = 0; i <= one.size(); ++i) {
    for (size_t j = 0; j <= other.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t replaced = cost[i - 1][j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[one.size()][other.size()];
}

// "; did you mean 'drain'?", by the word of `known` that is most like `word`; empty if none is: more
// than a third of it would have to be changed.
inline std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 64;  // as long as no word of ours
  if (word.size() > kLongest) return "";
  std::string best;
  size_t least = word.size() / 3 + 1;
  for (const std::string& each : known) {
    const size_t distance = EditDistance(word, each);
    if (distance >= least) continue;
    least = distance;
    best = each;
  }
  return best.empty() ? "" : absl::StrCat("; did you mean '", best, "'?");
}

}  // namespace ranklog

#endif  // SERVICE_BASE_SUGGESTION_H_
