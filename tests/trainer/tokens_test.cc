#include "trainer/data/tokens.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> CopyOf(const Tokens& tokens, size_t begin, size_t count) {
  std::vector<int64_t> out(count, -1);
  tokens.Copy(begin, count, out.data());
  return out;
}

class MappedTokensTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& bytes) {
    std::ofstream(dir_.File("tokens"), std::ios::binary) << bytes;
    return dir_.File("tokens");
  }
  ranklog::testing::TempDir dir_;
};

TEST(TokensTest, CopiesOneAndTwoBytesEach) {
  EXPECT_THAT(CopyOf(Tokens(std::vector<uint8_t>{1, 200, 255}), 1, 2), ElementsAre(200, 255));
  EXPECT_THAT(CopyOf(Tokens(std::vector<uint16_t>{1, 50256, 65535}), 0, 3),
              ElementsAre(1, 50256, 65535));
}

TEST(TokensTest, PartsOutliveTheWhole) {
  std::optional<Tokens> whole(std::vector<uint16_t>{10, 11, 12, 13, 14});
  const Tokens part = whole->Part(1, 3).Part(1, 2);
  whole.reset();
  EXPECT_EQ(part.size(), 2u);
  EXPECT_THAT(CopyOf(part, 0, 2), ElementsAre(12, 13));
}

TEST(TokensTest, LargestReturnsMaximumToken) {
  EXPECT_EQ(Tokens().Largest(), -1);
  EXPECT_EQ(Tokens(std::vector<uint8_t>{3, 255, 1}).Largest(), 255);
  EXPECT_EQ(Tokens(std::vector<uint16_t>{3, 1, 50257}).Part(0, 2).Largest(), 3);
  EXPECT_EQ(Tokens(std::vector<uint16_t>{65535, 1}).Largest(), 65535);
}

TEST_F(MappedTokensTest, ReadsLittleEndianFromAnOffset) {
  const std::string path = Write(std::string("head\x01\x02\xff\xff", 8));
  ASSERT_OK_AND_ASSIGN(const Tokens wide, Tokens::Map(path, 2, 4));
  EXPECT_THAT(CopyOf(wide, 0, 2), ElementsAre(0x201, 65535));
  ASSERT_OK_AND_ASSIGN(const Tokens narrow, Tokens::Map(path, 1));
  EXPECT_THAT(CopyOf(narrow, 3, 3), ElementsAre('d', 1, 2));
}

TEST_F(MappedTokensTest, MappingOutlivesFileName) {
  const std::string path = Write("abc");
  ASSERT_OK_AND_ASSIGN(const Tokens tokens, Tokens::Map(path, 1));
  unlink(path.c_str());
  EXPECT_THAT(CopyOf(tokens, 0, 3), ElementsAre('a', 'b', 'c'));
}

TEST_F(MappedTokensTest, SigbusReportsTruncatedFile) {
  const std::string path = Write("abc");
  ASSERT_OK_AND_ASSIGN(const Tokens tokens, Tokens::Map(path, 1));
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_EXIT(CopyOf(tokens, 0, 3), ::testing::KilledBySignal(SIGBUS),
              "SIGBUS: " + path + " was shortened while it was in use");
}

TEST_F(MappedTokensTest, EmptyFileHasNoTokens) {
  ASSERT_OK_AND_ASSIGN(const Tokens tokens, Tokens::Map(Write(""), 1));
  EXPECT_EQ(tokens.size(), 0u);
}

TEST_F(MappedTokensTest, ErrorNamesUnmappableFile) {
  EXPECT_THAT(Tokens::Map(dir_.File("none"), 1).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("none"))));
  EXPECT_THAT(Tokens::Map(dir_.path(), 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  EXPECT_THAT(Tokens::Map(Write("abc"), 2).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("inside a token")));
  EXPECT_THAT(Tokens::Map(Write("abc"), 1, 4).status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(WindowCountTest, EveryWindowHasANextToken) {
  EXPECT_EQ(WindowCount(Tokens(), 10), 0u);
  EXPECT_EQ(WindowCount(Tokens(std::vector<uint8_t>(10)), 10), 0u);
  EXPECT_EQ(WindowCount(Tokens(std::vector<uint8_t>(11)), 10), 1u);
  EXPECT_EQ(WindowCount(Tokens(std::vector<uint16_t>(30)), 10), 2u);
}

TEST(TokensTest, DigestDistinguishesTextsOfEqualLength) {
  std::vector<uint8_t> text(1000, 'a');
  const uint32_t before = Tokens(text).Digest();
  EXPECT_EQ(Tokens(text).Digest(), before);
  text[999] = 'b';
  EXPECT_NE(Tokens(text).Digest(), before);
  EXPECT_EQ(Tokens().Digest(), Tokens().Digest());
}

TEST(TokensTest, DigestCoversEndsOfLargeData) {
  std::vector<uint8_t> text(size_t{100} << 20, 'a');
  const uint32_t before = Tokens(text).Digest();
  for (const size_t changed : {size_t{0}, text.size() - 1}) {
    text[changed] = 'b';
    EXPECT_NE(Tokens(text).Digest(), before);
    text[changed] = 'a';
  }
}

}  // namespace
}  // namespace ranklog::trainer
