#include "trainer/data/token_cache.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/absent.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "trainer/data/token_file.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TokenCacheTest : public ::testing::Test {
 protected:
  TokenCacheTest() {
    std::ofstream file(dir_.File("text"));
    for (int i = 0; i < 3000; ++i) file << "the rank " << i * 7919 % 1000 << " logs its row\n";
  }
  void SetUp() override {
    SKIP_WITHOUT(HasBpe(), "ranklog-bpe: libsentencepiece-dev is not installed");
  }
  static bool HasBpe() {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    return std::filesystem::exists(self.parent_path().parent_path() /
                                   "libexec/ranklog/ranklog-bpe");
  }
  // The tokens from the cache. `printed_` is the printed progress.
  absl::StatusOr<Tokens> Open(const Tokenizer& tokenizer = {.pieces = 512}) {
    printed_.clear();
    DataProgress progress(
        /*shown=*/true, /*terminal=*/false, [this](const std::string& text) { printed_ += text; },
        [] { return absl::UnixEpoch(); });
    absl::StatusOr<Text> text = FindText(dir_.File("text"));
    if (!text.ok()) return text.status();
    absl::StatusOr<std::string> name = TokenFileName(*text, tokenizer);
    if (!name.ok()) return name.status();
    path_ = cache_ + "/" + *name;
    return OpenOrMakeTokens(cache_, *name, *text, tokenizer, progress);
  }
  static std::vector<int64_t> All(const Tokens& tokens) {
    std::vector<int64_t> all(tokens.size());
    tokens.Copy(0, all.size(), all.data());
    return all;
  }

  ranklog::testing::TempDir dir_;
  std::string cache_ = dir_.File("cache/deep");
  std::string path_, printed_;
};

TEST_F(TokenCacheTest, MakesTokensOnlyOnce) {  // S29
  ASSERT_OK_AND_ASSIGN(const Tokens made, Open());
  EXPECT_THAT(printed_, AllOf(HasSubstr("training the tokenizer bpe:512"), HasSubstr(" made in ")));
  EXPECT_LT(made.size(), std::filesystem::file_size(dir_.File("text")) / 2);
  EXPECT_LT(made.Largest(), 512);
  ASSERT_OK_AND_ASSIGN(const Tokens cached, Open());
  EXPECT_THAT(printed_, AllOf(HasSubstr("from the cache"), Not(HasSubstr("training"))));
  EXPECT_EQ(All(cached), All(made));
  // The tokens, their model and .lock; no temporary files.
  EXPECT_TRUE(std::filesystem::exists(path_ + ".model"));
  const std::filesystem::directory_iterator files(cache_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 3);
}

TEST_F(TokenCacheTest, RemakesADamagedFile) {
  ASSERT_OK_AND_ASSIGN(const Tokens made, Open());
  const std::vector<int64_t> expected = All(made);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 3);
  ASSERT_OK_AND_ASSIGN(const Tokens remade, Open());
  EXPECT_THAT(printed_, AllOf(HasSubstr("damaged: its header counts"),
                              HasSubstr("making the cached tokens again")));
  EXPECT_EQ(All(remade), expected);
  // A token that the tokenizer does not have.
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).seekp(kTokenFileHeader)
      << "\xff\xff";
  ASSERT_OK_AND_ASSIGN(const Tokens again, Open());
  EXPECT_EQ(All(again), expected);
}

TEST_F(TokenCacheTest, TextAndTokenizerSelectFile) {
  ASSERT_OK(Open().status());
  const std::string first = path_;
  ASSERT_OK(Open({.pieces = 520}).status());
  EXPECT_NE(path_, first);
  std::ofstream(dir_.File("text"), std::ios::app) << "a line more\n";
  ASSERT_OK(Open().status());
  EXPECT_NE(path_, first);
}

TEST_F(TokenCacheTest, ReportsWhyTextIsTooShort) {
  std::ofstream(dir_.File("text")) << "short\n";
  EXPECT_THAT(Open().status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("bpe:512"),
                                              HasSubstr("no more than 270 pieces: use bpe:270"))));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(TokenCacheTest, ReportsTextWithTooManyCharacters) {
  {
    std::ofstream text(dir_.File("text"));
    for (char second = 0; second < 60; ++second) {
      for (char third = 0; third < 60; ++third)  // CJK, in UTF-8
        text << '\xe4' << static_cast<char>(0x80 + second) << static_cast<char>(0x80 + third);
      text << '\n';
    }
  }
  EXPECT_THAT(Open().status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("or more")));
}

TEST_F(TokenCacheTest, ReportsEmptyText) {
  std::ofstream(dir_.File("text")).close();
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no text to learn from")));
}

TEST_F(TokenCacheTest, RemakesALostModel) {
  ASSERT_OK(Open().status());
  std::filesystem::remove(path_ + ".model");
  ASSERT_OK(Open().status());
  EXPECT_THAT(printed_, HasSubstr("training the tokenizer"));
  EXPECT_TRUE(std::filesystem::exists(path_ + ".model"));
}

TEST_F(TokenCacheTest, ReportsUnusableCacheDirectory) {
  cache_ = dir_.File("text") + "/below";
  EXPECT_THAT(Open().status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr(cache_), HasSubstr("--cache-dir"))));
}

TEST(DefaultCacheDirTest, FollowsTheEnvironment) {
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(*DefaultCacheDir(), "/xdg/ranklog");
  setenv("XDG_CACHE_HOME", "relative", 1);  // the XDG specification requires to ignore it
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(*DefaultCacheDir(), "/home/me/.cache/ranklog");
  setenv("HOME", " /home/me\n", 1);
  EXPECT_EQ(*DefaultCacheDir(), "/home/me/.cache/ranklog");
  setenv("XDG_CACHE_HOME", "/xdg\n", 1);
  EXPECT_EQ(*DefaultCacheDir(), "/xdg/ranklog");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_THAT(DefaultCacheDir().status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--cache-dir")));
}

}  // namespace
}  // namespace ranklog::trainer
