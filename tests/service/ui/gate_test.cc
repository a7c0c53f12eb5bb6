#include "service/ui/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::ui {
namespace {

using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kCookie[] = "other=1; ranklog_7000=secret; more=2";

class GateTest : public ::testing::Test {
 protected:
  Verdict Judge(const Visit& visit) const { return gate_.Judge(visit); }
  const Gate gate_{"secret", 7000};
  const Visit good_{.method = "GET",
                    .host = "127.0.0.1:7000",
                    .cookie = kCookie,
                    .fetch_site = "",
                    .token = "",
                    .page = false};
};

TEST_F(GateTest, CookieLetsIn) { EXPECT_EQ(Judge(good_), Verdict::kPass); }

TEST_F(GateTest, OnlyNamesOfThisMachineAreHosts) {
  Visit visit = good_;
  for (const char* const host : {"localhost:7000", "localhost", "LOCALHOST:1", "[::1]:7000",
                                 "[::1]", "127.0.0.1:9999", "127.0.0.1"}) {
    visit.host = host;
    EXPECT_EQ(Judge(visit), Verdict::kPass) << host;
  }
  for (const char* const host :
       {"", "evil.example", "evil.example:7000", "127.0.0.1.evil.example", "localhost.evil",
        "127.0.0.1:7000@evil", "127.0.0.1:", "127.0.0.1:70000x", "[::2]:7000", "0.0.0.0:7000"}) {
    visit.host = host;
    EXPECT_EQ(Judge(visit), Verdict::kWrongHost) << host;
  }
}

TEST_F(GateTest, TokenOfTheUrlCountsForThePageOnly) {
  Visit visit = good_;
  visit.cookie = "";
  visit.token = "secret";
  EXPECT_EQ(Judge(visit), Verdict::kNoToken);
  visit.page = true;
  EXPECT_EQ(Judge(visit), Verdict::kSignIn);
  visit.token = "secre";
  EXPECT_EQ(Judge(visit), Verdict::kNoToken);
}

TEST_F(GateTest, WrongCookiesAreRefused) {
  Visit visit = good_;
  for (const char* const cookie :
       {"", "ranklog_7000=", "ranklog_7000=secretx", "ranklog_7001=secret", "xranklog_7000=secret",
        "ranklog_7000=secret,"}) {
    visit.cookie = cookie;
    EXPECT_EQ(Judge(visit), Verdict::kNoToken) << cookie;
  }
}

TEST_F(GateTest, OnlyReadingMethodsPass) {
  Visit visit = good_;
  for (const char* const method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get"}) {
    visit.method = method;
    EXPECT_EQ(Judge(visit), Verdict::kWrongMethod) << method;
  }
  visit.method = "HEAD";
  EXPECT_EQ(Judge(visit), Verdict::kPass);
}

TEST_F(GateTest, ScriptsOfOtherOriginsAreRefused) {
  Visit visit = good_;
  for (const char* const site : {"cross-site", "same-site"}) {
    visit.fetch_site = site;
    visit.page = false;
    EXPECT_EQ(Judge(visit), Verdict::kWrongSite) << site;
    visit.page = true;  // a link to the page may be anywhere
    EXPECT_EQ(Judge(visit), Verdict::kPass) << site;
  }
}

TEST_F(GateTest, ScriptsCannotReadTheCookieNorOtherSitesSendIt) {
  EXPECT_EQ(gate_.SetCookie(), "ranklog_7000=secret; Path=/; HttpOnly; SameSite=Strict");
}

TEST(NewTokenTest, IsRandom) {
  const std::string token = NewToken();
  EXPECT_THAT(token, MatchesRegex("[0-9a-f]{32}"));
  EXPECT_THAT(NewToken(), Not(token));
}

}  // namespace
}  // namespace ranklog::ui
