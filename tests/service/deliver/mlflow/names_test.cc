#include "service/deliver/mlflow/format/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ranklog::deliver::mlflow {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST(NamesTest, UsualKeysStay) {
  for (const char* const key : {"loss", "train/loss", "a.b-c d:e_f", "x_", "__x", "énergie", "损失",
                                "потеря", ".hidden", "a/.b", "x..y", "_x5B_", "_xyz_"}) {
    EXPECT_EQ(NameOf(key), key);
    EXPECT_FALSE(IsCut(key));
  }
}

TEST(NamesTest, OtherCharactersAreEscaped) {
  EXPECT_EQ(NameOf("loss[0]"), "loss_x005B_0_x005D_");
  EXPECT_EQ(NameOf("acc@5"), "acc_x0040_5");
  EXPECT_EQ(NameOf("T °C"), "T _x00B0_C");
  EXPECT_EQ(NameOf("🚀"), "_x1F680_");
}

TEST(NamesTest, NamesAreNormalPaths) {
  EXPECT_EQ(NameOf("/a"), "_x002F_a");
  EXPECT_EQ(NameOf("a/"), "a_x002F_");
  EXPECT_EQ(NameOf("a//b"), "a/_x002F_b");
  EXPECT_EQ(NameOf("./a"), "_x002E_/a");
  EXPECT_EQ(NameOf("a/../b"), "a/_x002E_./b");
  EXPECT_EQ(NameOf("..a"), "_x002E_.a");
  EXPECT_EQ(NameOf("."), "_x002E_");
}

TEST(NamesTest, KeyIsFoundAgain) {
  for (const char* const key : {"loss[0]", "/a//b/", "..", "a/./b", "_x005B_", "x_x00e9_y",
                                "🚀 100 %", "a=1,b=2", "\x7f", "", "_x_", "_x005F_x_", "a_x_"}) {
    EXPECT_EQ(KeyOf(NameOf(key)), key);
    EXPECT_EQ(NameOf(NameOf(NameOf(key))).empty(), false);
  }
  EXPECT_NE(NameOf("_x005B_"), NameOf("["));
  EXPECT_EQ(NameOf(""), "_x_");
  EXPECT_EQ(NameOf("_x_"), "_x005F_x_");
}

TEST(NamesTest, LongNamesAreCutAndDiffer) {
  const std::string key(300, 'a');
  EXPECT_TRUE(IsCut(key));
  EXPECT_EQ(Characters(NameOf(key)), kMaxNameCharacters);
  EXPECT_THAT(NameOf(key), StartsWith("aaaa"));
  EXPECT_NE(NameOf(key), NameOf(key + "b"));
  EXPECT_FALSE(IsCut(std::string(250, 'a')));
  EXPECT_EQ(NameOf(std::string(250, 'a')), std::string(250, 'a'));
}

TEST(NamesTest, CharactersAreCountedNotBytes) {
  EXPECT_EQ(Characters("é损"), 2u);
  EXPECT_EQ(FirstCharacters("é损a", 2), "é损");
  EXPECT_EQ(FirstCharacters("ab", 5), "ab");
}

}  // namespace
}  // namespace ranklog::deliver::mlflow
