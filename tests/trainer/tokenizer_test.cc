#include "trainer/data/tokenizer.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::HasSubstr;

TEST(TokenizerTest, ParsesItsName) {
  for (const char* name : {"bytes", "bpe:258", "bpe:512", "bpe:4096", "bpe:65536"}) {
    ASSERT_OK_AND_ASSIGN(const Tokenizer tokenizer, Tokenizer::Parse(name));
    EXPECT_EQ(tokenizer.name(), name);
  }
  EXPECT_EQ(Tokenizer::Parse("bytes")->vocabulary(), 256);
  EXPECT_EQ(Tokenizer::Parse("bpe:4096")->vocabulary(), 4096);
}

TEST(TokenizerTest, RefusesUnknownNames) {
  for (const char* name : {"", "byte", "bpe", "bpe:", "bpe:x", "bpe:257", "bpe:65537", "bpe:-1",
                           "bpe:4096x", "BPE:4096"}) {
    EXPECT_THAT(Tokenizer::Parse(name).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bpe:N")))
        << name;
  }
}

}  // namespace
}  // namespace ranklog::trainer
