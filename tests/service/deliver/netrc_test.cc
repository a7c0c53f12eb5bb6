#include "service/deliver/http/machine/netrc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::deliver {
namespace {

using ::testing::Eq;

absl::optional<std::string> PasswordOf(absl::string_view text, absl::string_view machine,
                                       absl::string_view project = "") {
  const absl::optional<NetrcEntry> entry = NetrcEntryOf(text, machine, project);
  return entry ? absl::make_optional(entry->password) : absl::nullopt;
}

TEST(NetrcTest, EntryHasItsLogin) {
  EXPECT_EQ(NetrcEntryOf("machine a.com password p login u", "a.com")->login, "u");
}

TEST(NetrcTest, AccountIsProject) {
  const char kText[] =
      "machine a.com login u password all\nmachine a.com account p login u password mine\n"
      "default password d";
  EXPECT_THAT(PasswordOf(kText, "a.com", "p"), Eq("mine"));
  EXPECT_THAT(PasswordOf(kText, "a.com", "q"), Eq("all"));
  EXPECT_THAT(PasswordOf("machine a.com password mine account p", "a.com", "q"), Eq(absl::nullopt));
  EXPECT_EQ(NetrcWithout(kText, "a.com", "p"),
            "machine a.com login u password all\ndefault password d");
  EXPECT_EQ(NetrcWithout(kText, "a.com"),
            "machine a.com account p login u password mine\ndefault password d");
}

TEST(NetrcTest, FindsThePasswordOfTheMachine) {
  const char kText[] =
      "machine a.com login u password one\nmachine b.com\n  login u\n  password two\n";
  EXPECT_THAT(PasswordOf(kText, "a.com"), Eq("one"));
  EXPECT_THAT(PasswordOf(kText, "b.com"), Eq("two"));
  EXPECT_THAT(PasswordOf(kText, "c.com"), Eq(absl::nullopt));
}

TEST(NetrcTest, DistinguishesPortsOfHost) {
  EXPECT_THAT(PasswordOf("machine a.com:8080 password p", "a.com"), Eq(absl::nullopt));
  EXPECT_THAT(PasswordOf("machine a.com:8080 password p", "a.com:8080"), Eq("p"));
}

TEST(NetrcTest, FallsBackToTheDefault) {
  const char kText[] = "default login u password d\nmachine a.com password one";
  EXPECT_THAT(PasswordOf(kText, "a.com"), Eq("one"));
  EXPECT_THAT(PasswordOf(kText, "z.com"), Eq("d"));
}

TEST(NetrcTest, ParsesCommentsMacrosAndQuotes) {
  const char kText[] =
      "# machine a.com password no\nmacdef x\nmachine a.com password no\n\nmachine a.com password "
      "\"ye\\\"s\"";
  EXPECT_THAT(PasswordOf(kText, "a.com"), Eq("ye\"s"));
}

TEST(NetrcTest, WithoutAMachineAllElseStays) {
  const char kText[] =
      "# mine\nmachine a.com\n  login user\n  password one\n# next\nmachine b.com password two\n"
      "machine a.com password three\nmacdef a.com\nmachine a.com\n\ndefault password d\n";
  EXPECT_EQ(NetrcWithout(kText, "a.com"),
            "# mine\n# next\nmachine b.com password two\nmacdef a.com\nmachine a.com\n\n"
            "default password d\n");
  EXPECT_EQ(NetrcWithout(kText, "c.com"), kText);
  EXPECT_EQ(NetrcWithout("machine b.com login x machine a.com password one", "a.com"),
            "machine b.com login x ");
  EXPECT_EQ(NetrcWithout("machine a.com", "a.com"), "");
}

TEST(NetrcTest, TruncatedTextIsHarmless) {
  for (const char* text :
       {"machine", "machine a.com password", "machine a.com password \"x", "macdef", "#"}) {
    NetrcEntryOf(text, "a.com");
    NetrcWithout(text, "a.com");
  }
  EXPECT_THAT(PasswordOf("machine a.com login password", "a.com"), Eq(absl::nullopt));
}

}  // namespace
}  // namespace ranklog::deliver
