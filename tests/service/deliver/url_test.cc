#include "service/deliver/http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ranklog::deliver {
namespace {

using ranklog::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(UrlTest, SplitsSchemeHostAndPath) {
  ASSERT_OK_AND_ASSIGN(const Url url, ParseUrl("HTTPS://Api.Example.com:8443/prefix/x"));
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.netloc, "api.example.com:8443");
  EXPECT_EQ(url.host(), "api.example.com");
  EXPECT_EQ(url.path, "/prefix/x");
  EXPECT_FALSE(url.loopback());
}

TEST(UrlTest, RecognizesLoopbackHosts) {
  for (const char* text :
       {"http://localhost:1", "http://127.0.0.1", "http://127.8.9.1:80/x", "http://[::1]:5"}) {
    ASSERT_OK_AND_ASSIGN(const Url url, ParseUrl(text));
    EXPECT_TRUE(url.loopback()) << text;
  }
  ASSERT_OK_AND_ASSIGN(const Url url, ParseUrl("http://127.evil.com"));
  EXPECT_FALSE(url.loopback());
}

TEST(UrlTest, RejectsInvalidHttpUrls) {
  for (const char* text : {"", "api.wandb.ai", "ftp://x", "https://", "https://:80", "https://a b",
                           "https://a\n", "https://a?x", "https://a#x", "file:///etc/passwd",
                           "https://[::1", "https://[]", "https://[::1]x"}) {
    EXPECT_THAT(ParseUrl(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(UrlTest, RejectsPasswordWithoutRepeatingIt) {
  for (const char* text : {"https://user:secret@host", "user:secret@host", "ftp://user:secret@host",
                           "https://user:secret/@host?x"}) {
    EXPECT_THAT(ParseUrl(text),
                StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("secret"))));
  }
}

TEST(UrlTest, EncodesAPathElement) {
  EXPECT_EQ(PercentEncode("a b/c?\xc3\xa9-._~9"), "a%20b%2Fc%3F%C3%A9-._~9");
}

}  // namespace
}  // namespace ranklog::deliver
