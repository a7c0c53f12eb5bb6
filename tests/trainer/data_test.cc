#include "trainer/data.h"

#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::HasSubstr;

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

  ranklog::testing::TempDir dir_;
};

std::string Counting(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i * 7 % 251));
  return text;
}

TEST_F(LoadCorpusTest, HoldsOutTheTail) {
  ASSERT_OK_AND_ASSIGN(const Corpus corpus, LoadCorpus(Write("text", Counting(1000)), 10, 1));
  EXPECT_EQ(corpus.train.size(), 950u);
  EXPECT_EQ(corpus.validation.size(), 50u);
  std::vector<uint8_t> whole = corpus.train;
  whole.insert(whole.end(), corpus.validation.begin(), corpus.validation.end());
  const std::string text = Counting(1000);
  EXPECT_EQ(whole, std::vector<uint8_t>(text.begin(), text.end()));
}

TEST_F(LoadCorpusTest, HoldsOutAtLeastOneSequence) {
  ASSERT_OK_AND_ASSIGN(const Corpus corpus, LoadCorpus(Write("text", Counting(1000)), 100, 1));
  EXPECT_EQ(WindowCount(corpus.validation, 100), 1u);
}

TEST_F(LoadCorpusTest, ReadsAGzippedTextAsThePlainOne) {
  ASSERT_OK_AND_ASSIGN(const Corpus plain, LoadCorpus(Write("text", Counting(5000)), 10, 1));
  ASSERT_OK_AND_ASSIGN(const Corpus gzipped, LoadCorpus(WriteGzipped(Counting(5000)), 10, 1));
  EXPECT_EQ(gzipped.train, plain.train);
  EXPECT_EQ(gzipped.validation, plain.validation);
}

TEST_F(LoadCorpusTest, NamesAFileThatIsMissing) {
  EXPECT_THAT(LoadCorpus(dir_.File("none"), 10, 1).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("none"))));
}

TEST_F(LoadCorpusTest, SaysHowLongTheTextMustBe) {
  // 8 sequences of 10 and their last target, plus one held out with its target.
  EXPECT_THAT(LoadCorpus(Write("short", Counting(91)), 10, 8).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("takes 92")));
  EXPECT_OK(LoadCorpus(Write("enough", Counting(92)), 10, 8).status());
  EXPECT_THAT(LoadCorpus(Write("empty", ""), 10, 8).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(LoadCorpusTest, RefusesAGzippedTextThatWasCutOff) {
  const std::string path = WriteGzipped(Counting(100000));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT(LoadCorpus(path, 10, 1).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path)));
}

TEST_F(LoadCorpusTest, RefusesADirectory) {
  EXPECT_THAT(LoadCorpus(dir_.path(), 10, 1).status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(BuiltinCorpusTest, IsRealText) {
  ASSERT_OK_AND_ASSIGN(const Corpus corpus, LoadCorpus("builtin", 128, 16));
  EXPECT_GT(corpus.train.size(), 100000u);
  EXPECT_GT(corpus.validation.size(), 5000u);
  const std::string text(corpus.train.begin(), corpus.train.end());
  EXPECT_THAT(text, HasSubstr(" the "));
}

TEST(WindowCountTest, EveryWindowHasANextToken) {
  EXPECT_EQ(WindowCount(std::vector<uint8_t>(0), 10), 0u);
  EXPECT_EQ(WindowCount(std::vector<uint8_t>(10), 10), 0u);
  EXPECT_EQ(WindowCount(std::vector<uint8_t>(11), 10), 1u);
  EXPECT_EQ(WindowCount(std::vector<uint8_t>(30), 10), 2u);
}

}  // namespace
}  // namespace ranklog::trainer
