#include "trainer/base/error_file.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

TEST(ErrorFileTest, HasTheFieldsThatTorchrunReads) {
  const auto content =
      nlohmann::json::parse(ErrorFileContent("no \"memory\"", 3, 1700000000), nullptr, false);
  ASSERT_TRUE(content.is_object());
  EXPECT_EQ(content["message"]["message"], "rank 3: no \"memory\"");
  EXPECT_EQ(content["message"]["extraInfo"]["timestamp"], "1700000000");
  EXPECT_TRUE(content["message"]["extraInfo"]["py_callstack"].is_string());
}

TEST(ErrorFileTest, ReplacesInvalidUtf8) {
  EXPECT_FALSE(
      nlohmann::json::parse(ErrorFileContent("\xff", 0, 1), nullptr, false).is_discarded());
}

TEST(ErrorFileTest, IsWrittenWhereTorchrunAsks) {
  const ranklog::testing::TempDir dir;
  setenv("TORCHELASTIC_ERROR_FILE", dir.File("error.json").c_str(), 1);
  WriteErrorFile("lost", 1);
  unsetenv("TORCHELASTIC_ERROR_FILE");
  WriteErrorFile("nowhere", 1);
  std::ifstream file(dir.File("error.json"));
  EXPECT_EQ(nlohmann::json::parse(file, nullptr, false)["message"]["rank"], 1);
}

TEST(ErrorFileTest, TakesTheRankOfTorchrun) {
  const ranklog::testing::TempDir dir;
  setenv("TORCHELASTIC_ERROR_FILE", dir.File("error.json").c_str(), 1);
  setenv("RANK", "3", 1);
  WriteErrorFile("lost");
  unsetenv("RANK");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  std::ifstream file(dir.File("error.json"));
  EXPECT_EQ(nlohmann::json::parse(file, nullptr, false)["message"]["rank"], 3);
}

}  // namespace
}  // namespace ranklog::trainer
