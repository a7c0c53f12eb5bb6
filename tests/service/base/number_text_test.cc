#include "service/base/text/number_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ranklog {
namespace {

TEST(NumberTextTest, ShortNumbersKeepAFewDigits) {
  EXPECT_EQ(ShortNumber(2.307912345), "2.3079");
  EXPECT_EQ(ShortNumber(300), "300");
  EXPECT_EQ(ShortNumber(0.0003), "0.0003");
  EXPECT_EQ(ShortNumber(1e-9), "1e-09");
  EXPECT_EQ(ShortNumber(2.307912345, 3), "2.31");
}

TEST(NumberTextTest, ShortNumbersNameNonFiniteValues) {
  EXPECT_EQ(ShortNumber(NAN), "NaN");
  EXPECT_EQ(ShortNumber(INFINITY), "Infinity");
  EXPECT_EQ(ShortNumber(-INFINITY), "-Infinity");
}

TEST(NumberTextTest, PlainNumbersWriteOutIntegers) {
  EXPECT_EQ(PlainNumber(123456789), "123456789");
  EXPECT_EQ(PlainNumber(-5), "-5");
  EXPECT_EQ(PlainNumber(9007199254740992), "9007199254740992");
  EXPECT_EQ(PlainNumber(1e20), "1e+20");
  EXPECT_EQ(PlainNumber(0.123456), "0.12346");
  EXPECT_EQ(PlainNumber(NAN), "NaN");
  EXPECT_EQ(PlainNumber(-INFINITY), "-Infinity");
}

TEST(NumberTextTest, BytesGrowIntoUnits) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText(5LL << 30), "5.0 GiB");
}

TEST(NumberTextTest, CountOfOneIsSingular) {
  EXPECT_EQ(Counted(0, "row"), "0 rows");
  EXPECT_EQ(Counted(1, "row"), "1 row");
  EXPECT_EQ(Counted(12, "row"), "12 rows");
}

TEST(NumberTextTest, RowsAreARangeOrOne) {
  EXPECT_EQ(RowsText(7, 7), "row 7");
  EXPECT_EQ(RowsText(3, 5), "rows 3 to 5");
}

TEST(NumberTextTest, DurationsKeepTwoUnits) {
  EXPECT_EQ(DurationText(absl::Milliseconds(1500)), "1.5 s");
  EXPECT_EQ(DurationText(absl::Seconds(59)), "59 s");
  EXPECT_EQ(DurationText(absl::Seconds(133)), "2 m 13 s");
  EXPECT_EQ(DurationText(absl::Minutes(302)), "5 h 02 m");
  EXPECT_EQ(DurationText(absl::Hours(76)), "3 d 04 h");
}

TEST(NumberTextTest, UnknownTimePrintsDash) {
  EXPECT_EQ(TimeText(0), "-");
  EXPECT_EQ(TimeText(1700000000000000).size(), std::string("2023-11-14 22:13:20").size());
}

}  // namespace
}  // namespace ranklog
