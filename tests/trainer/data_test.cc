#include "trainer/data/data.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::HasSubstr;

std::vector<int64_t> AllOf(const Tokens& tokens) {
  std::vector<int64_t> all(tokens.size());
  tokens.Copy(0, all.size(), all.data());
  return all;
}

class LoadCorpusTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_.File(name)) << text;
    return dir_.File(name);
  }
  std::string WriteGzipped(const std::string& text) {
    const std::string path = dir_.File("text.gz");
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), text.size());
    gzclose(file);
    return path;
  }
  // A nanoGPT file with the tokens first, first + 1, ...
  std::string WriteTokens(const std::string& name, uint16_t first, size_t count) {
    std::vector<uint16_t> tokens(count);
    for (size_t i = 0; i < count; ++i) tokens[i] = first + i;
    return Write(name, std::string(reinterpret_cast<const char*>(tokens.data()), count * 2));
  }
  absl::StatusOr<Corpus> Load(const std::string& data, size_t seq_len, size_t min_windows) {
    return LoadCorpus({.data = data, .seq_len = seq_len, .min_windows = min_windows}, quiet_);
  }

  ranklog::testing::TempDir dir_;
  DataProgress quiet_{/*shown=*/false};
};

std::string Counting(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i * 7 % 251));
  return text;
}

TEST_F(LoadCorpusTest, HoldsOutTheTail) {
  ASSERT_OK_AND_ASSIGN(const Corpus corpus, Load(Write("text", Counting(1000)), 10, 1));
  EXPECT_EQ(corpus.vocabulary, 256);
  EXPECT_EQ(corpus.train.size(), 950u);
  EXPECT_EQ(corpus.validation.size(), 50u);
  std::vector<int64_t> whole = AllOf(corpus.train);
  for (const int64_t token : AllOf(corpus.validation)) whole.push_back(token);
  const std::string text = Counting(1000);
  EXPECT_EQ(whole, std::vector<int64_t>(reinterpret_cast<const uint8_t*>(text.data()),
                                        reinterpret_cast<const uint8_t*>(text.data()) + 1000));
}

TEST_F(LoadCorpusTest, HoldsOutAtLeastOneSequence) {
  ASSERT_OK_AND_ASSIGN(const Corpus corpus, Load(Write("text", Counting(1000)), 100, 1));
  EXPECT_EQ(WindowCount(corpus.validation, 100), 1u);
}

TEST_F(LoadCorpusTest, GzippedTextReadsLikePlainText) {
  ASSERT_OK_AND_ASSIGN(const Corpus plain, Load(Write("text", Counting(5000)), 10, 1));
  ASSERT_OK_AND_ASSIGN(const Corpus gzipped, Load(WriteGzipped(Counting(5000)), 10, 1));
  EXPECT_EQ(AllOf(gzipped.train), AllOf(plain.train));
  EXPECT_EQ(AllOf(gzipped.validation), AllOf(plain.validation));
}

TEST_F(LoadCorpusTest, NamesAFileThatIsMissing) {
  for (const char* name : {"none", "none.bin"}) {
    const std::string path = dir_.File(name);
    EXPECT_THAT(Load(path, 10, 1).status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
    EXPECT_THAT(CheckData(path), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  }
  // A directory without train.bin.
  EXPECT_THAT(CheckData(dir_.path()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("train.bin"))));
  EXPECT_THAT(CheckData(dir_.path()).message(), HasSubstr("for a text, pass a file"));
}

TEST_F(LoadCorpusTest, TooShortTextReportsNeededLength) {
  // 8 sequences of 10 tokens and their last target, and a held-out sequence with its target.
  EXPECT_THAT(
      Load(Write("short", Counting(91)), 10, 8).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("need 92; give a longer text")));
  EXPECT_OK(Load(Write("enough", Counting(92)), 10, 8).status());
  EXPECT_THAT(Load(Write("empty", ""), 10, 8).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(LoadCorpusTest, RejectsTruncatedGzip) {
  const std::string path = WriteGzipped(Counting(100000));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT(Load(path, 10, 1).status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("cannot read the text " + path + ": unexpected end of file")));
}

TEST_F(LoadCorpusTest, RefusesNonRegularFiles) {
  EXPECT_THAT(Load("/dev/null", 10, 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST_F(LoadCorpusTest, FolderHasTrainingAndValidationTokens) {
  WriteTokens("train.bin", 1000, 100);
  WriteTokens("val.bin", 2000, 30);
  for (const std::string& data : {dir_.path(), dir_.File("train.bin")}) {
    ASSERT_OK_AND_ASSIGN(const Corpus corpus, Load(data, 10, 2));
    EXPECT_EQ(corpus.vocabulary, 50257);
    EXPECT_EQ(corpus.train.size(), 100u);
    EXPECT_EQ(AllOf(corpus.train)[0], 1000);
    EXPECT_EQ(corpus.validation.size(), 30u);
    EXPECT_EQ(AllOf(corpus.validation)[0], 2000);
  }
}

TEST_F(LoadCorpusTest, SingleTokenFileHoldsOutTail) {
  ASSERT_OK_AND_ASSIGN(const Corpus corpus, Load(WriteTokens("x.bin", 0, 1000), 10, 2));
  EXPECT_EQ(corpus.train.size(), 950u);
  EXPECT_EQ(AllOf(corpus.validation)[0], 950);
}

TEST_F(LoadCorpusTest, RefusesUnusableTokenFiles) {
  WriteTokens("train.bin", 0, 100);
  WriteTokens("val.bin", 0, 10);
  EXPECT_THAT(Load(dir_.path(), 10, 2).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("val.bin: it has 10 tokens")));
  WriteTokens("val.bin", 50250, 11);
  EXPECT_THAT(Load(dir_.path(), 10, 2).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("contains token 50260")));
  WriteTokens("val.bin", 0, 11);
  EXPECT_THAT(Load(dir_.File("train.bin"), 10, 10).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 100 tokens")));
}

TEST_F(LoadCorpusTest, BuiltinDataIsRealText) {
  ASSERT_OK_AND_ASSIGN(const Corpus corpus, Load("builtin", 128, 16));
  EXPECT_GT(corpus.train.size(), 100000u);
  EXPECT_GT(corpus.validation.size(), 5000u);
  const std::vector<int64_t> tokens = AllOf(corpus.train);
  EXPECT_THAT(std::string(tokens.begin(), tokens.end()), HasSubstr(" the "));
}

}  // namespace
}  // namespace ranklog::trainer
