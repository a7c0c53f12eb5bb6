#include "trainer/data/token_file.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenFileTest : public ::testing::Test {
 protected:
  // A file with these words 0, 1 and 2 of the header, and these tokens after it.
  static std::string LlmC(int32_t magic, int32_t version, int32_t count,
                          const std::vector<uint16_t>& tokens) {
    std::array<int32_t, 256> header = {magic, version, count};
    return std::string(reinterpret_cast<const char*>(header.data()), sizeof header) + Raw(tokens);
  }
  static std::string Raw(const std::vector<uint16_t>& tokens) {
    return std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2);
  }
  std::string Write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return path_;
  }
  static std::vector<int64_t> All(const Tokens& tokens) {
    std::vector<int64_t> all(tokens.size());
    tokens.Copy(0, all.size(), all.data());
    return all;
  }

  ranklog::testing::TempDir dir_;
  const std::string path_ = dir_.File("tokens.bin");
};

TEST_F(TokenFileTest, ReadsNanoGptsFile) {
  ASSERT_OK_AND_ASSIGN(const Tokens tokens, OpenTokenFile(Write(Raw({5, 50256, 0}))));
  EXPECT_THAT(All(tokens), ElementsAre(5, 50256, 0));
}

TEST_F(TokenFileTest, ReadsLlmCsFile) {
  ASSERT_OK_AND_ASSIGN(const Tokens tokens,
                       OpenTokenFile(Write(LlmC(20240520, 1, 3, {5, 50256, 0}))));
  EXPECT_THAT(All(tokens), ElementsAre(5, 50256, 0));
}

TEST_F(TokenFileTest, WritesTheHeaderThatItReads) {
  Write(std::string(kTokenFileHeader, '\0') + Raw({7, 8}));
  ASSERT_OK(WriteTokenFileHeader(path_));
  ASSERT_OK_AND_ASSIGN(const Tokens tokens, OpenTokenFile(path_));
  EXPECT_THAT(All(tokens), ElementsAre(7, 8));
  std::string bytes(std::filesystem::file_size(path_), '\0');
  std::ifstream(path_, std::ios::binary).read(bytes.data(), bytes.size());
  EXPECT_EQ(bytes, LlmC(20240520, 1, 2, {7, 8}));
  EXPECT_THAT(WriteTokenFileHeader(dir_.File("none")), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(TokenFileTest, RefusesOtherVersions) {
  EXPECT_THAT(OpenTokenFile(Write(LlmC(20240520, 2, 1, {5}))).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version 2")));
  EXPECT_THAT(OpenTokenFile(Write(LlmC(20240801, 1, 1, {5, 0}))).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("32-bit tokens")));
}

TEST_F(TokenFileTest, RefusesTornFiles) {
  for (const std::string& torn :
       {LlmC(20240520, 1, 3, {5, 6}), LlmC(20240520, 1, 1, {5, 6}), LlmC(20240520, 1, -1, {5}),
        LlmC(20240520, 1, 2, {5, 6}).substr(0, 1027), LlmC(20240520, 1, 2, {5, 6}).substr(0, 500),
        Raw({5, 6}).substr(0, 3)}) {
    EXPECT_THAT(OpenTokenFile(Write(torn)).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")))
        << torn.size();
  }
}

TEST_F(TokenFileTest, RefusesFilesWithoutTokens) {
  EXPECT_THAT(OpenTokenFile(Write("")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(OpenTokenFile(Write(LlmC(20240520, 1, 0, {}))).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no tokens")));
  EXPECT_THAT(OpenTokenFile(dir_.File("none")).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("none"))));
}

TEST_F(TokenFileTest, NamesATokenOutsideTheVocabulary) {
  const Tokens tokens(std::vector<uint16_t>{5, 50256});
  EXPECT_OK(CheckVocabulary(tokens, 50257, "x.bin"));
  EXPECT_THAT(
      CheckVocabulary(tokens, 50256, "x.bin"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x.bin: it contains token 50256")));
}

// llm.c files that were cut, extended or changed anywhere are refused, or return tokens of the
// file. No token is read outside the file.
TEST_F(TokenFileTest, DamagedFilesNeverReadOutside) {
  std::mt19937 random(20240520);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint16_t> tokens(1 + random() % 40);
    for (uint16_t& token : tokens) token = random() % 50257;
    const std::string whole = LlmC(20240520, 1, static_cast<int32_t>(tokens.size()), tokens);
    std::string damaged = whole;
    switch (random() % 3) {
      case 0:
        damaged.resize(random() % whole.size());
        break;
      case 1:
        damaged.append(1 + random() % 9, static_cast<char>(random()));
        break;
      default:
        damaged[random() % 12] ^= static_cast<char>(1 << random() % 8);
    }
    const bool magic = damaged.size() >= 4 && std::memcmp(damaged.data(), whole.data(), 4) == 0;
    const absl::StatusOr<Tokens> opened = OpenTokenFile(Write(damaged));
    if (magic) {
      EXPECT_FALSE(opened.ok()) << i << ": " << damaged.size();
    } else if (opened.ok()) {  // without its magic number it is a nanoGPT file
      EXPECT_EQ(opened->size(), damaged.size() / 2);
      EXPECT_LT(opened->Largest(), 65536);
    }
  }
}

TEST_F(TokenFileTest, RandomBytesNeverReadOutside) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 2100, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (bytes.size() >= 8 && random() % 2 == 0) {
      std::memcpy(bytes.data(), LlmC(20240520, 1, 0, {}).data(), 4 + random() % 5);
    }
    const absl::StatusOr<Tokens> opened = OpenTokenFile(Write(bytes));
    EXPECT_LE(opened.ok() ? opened->size() : 0, bytes.size() / 2);
  }
}

}  // namespace
}  // namespace ranklog::trainer
