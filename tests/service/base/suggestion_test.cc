#include "service/base/text/suggestion.h"

#include <gtest/gtest.h>

namespace ranklog {
namespace {

TEST(SuggestionTest, DistanceCountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("drain", "drain"), 0u);
  EXPECT_EQ(EditDistance("drian", "drain"), 1u);
  EXPECT_EQ(EditDistance("dran", "drain"), 1u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(SuggestionTest, ClosestWordIsSuggested) {
  const std::vector<std::string> known = {"keep-for", "keep-bytes", "drain", "listen"};
  EXPECT_EQ(DidYouMean("drian", known), "; did you mean 'drain'?");
  EXPECT_EQ(DidYouMean("keep_for", known), "; did you mean 'keep-for'?");
  EXPECT_EQ(DidYouMean("keep-byte", known), "; did you mean 'keep-bytes'?");
}

TEST(SuggestionTest, UnrelatedWordGetsNoSuggestion) {
  EXPECT_EQ(DidYouMean("colour", {"drain", "listen"}), "");
  EXPECT_EQ(DidYouMean("", {"drain"}), "");
  EXPECT_EQ(DidYouMean(std::string(1 << 20, 'x'), {"drain"}), "");
}

}  // namespace
}  // namespace ranklog
