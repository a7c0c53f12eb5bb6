// Finds the wrong word of a command line, and suggests what it may mean.

#ifndef SERVICE_BASE_TEXT_SUGGESTION_H_
#define SERVICE_BASE_TEXT_SUGGESTION_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ranklog {

// The number of letters that must be inserted, removed, replaced or swapped with a neighbour to
// turn one word into the other (optimal string alignment).
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

// "; did you mean 'drain'?", with the word of `known` that is closest to `word`. Empty if every
// word differs in more than a third of the letters of `word`.
inline std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 64;  // longer than any known word
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

// The first word of a command line that is not understood. An option goes before its value.
// `words` must not be empty.
inline std::string NotUnderstood(const std::vector<std::string>& words) {
  const auto option = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word.size() > 1 && word[0] == '-';
  });
  return option == words.end() ? words.front() : *option;
}

}  // namespace ranklog

#endif  // SERVICE_BASE_TEXT_SUGGESTION_H_
