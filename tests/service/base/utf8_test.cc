#include "service/base/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace ranklog {
namespace {

TEST(Utf8Test, AcceptsBoundsOfEachLength) {
  for (const char* text : {"", "loss", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80",
                           "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80",
                           "\xF4\x8F\xBF\xBF", "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\x80z"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  EXPECT_TRUE(IsUtf8(std::string("\0", 1)));
}

TEST(Utf8Test, RejectsInvalidSequences) {
  for (const char* bytes : {"\x80",                              // starts with a continuation byte
                            "\xC0\xAF", "\xE0\x9F\xBF",          // overlong
                            "\xF0\x8F\xBF\xBF",                  //
                            "\xED\xA0\x80",                      // a surrogate
                            "\xF4\x90\x80\x80", "\xF5",          // above U+10FFFF
                            "\xC3", "\xE2\x82", "\xF0\x9F\x9A",  // truncated
                            "\xC3z", "\xE2\x82z", "\xFF"}) {
    EXPECT_FALSE(IsUtf8(bytes)) << bytes;
    EXPECT_FALSE(IsUtf8(std::string("a") + bytes)) << bytes;
  }
}

TEST(Utf8Test, ReplacesInvalidBytes) {
  EXPECT_EQ(ToUtf8("f\xC3\xBCr"), "f\xC3\xBCr");
  EXPECT_EQ(ToUtf8("f\xFCr"), "f\xEF\xBF\xBDr");
  EXPECT_EQ(ToUtf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(ToUtf8(std::string("\xED\xA0\x80")).size(), 9u);
  EXPECT_EQ(ToUtf8(std::string("a\0b", 3)), std::string("a\0b", 3));
}

TEST(Utf8Test, CutsBetweenCharacters) {
  const std::string text = "a\xE2\x82\xACz";
  EXPECT_EQ(CutUtf8(text, 5), text);
  EXPECT_EQ(CutUtf8(text, 4), "a\xE2\x82\xAC");
  EXPECT_EQ(CutUtf8(text, 3), "a");
  EXPECT_EQ(CutUtf8(text, 1), "a");
  EXPECT_EQ(CutUtf8(text, 0), "");
}

}  // namespace
}  // namespace ranklog
