#include "service/deliver/wandb/api/base_url.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ranklog::deliver::wandb {
namespace {

using ranklog::testing::IsOkAndHolds;
using ranklog::testing::StatusIs;

TEST(BaseUrlTest, IsThePublicServersByDefault) {
  EXPECT_THAT(CheckBaseUrl(""), IsOkAndHolds("https://api.wandb.ai"));
}

TEST(BaseUrlTest, RunUrlMatchesOfficialClient) {
  EXPECT_EQ(RunUrl(kPublicBaseUrl, "me", "gpt 2", "job"), "https://wandb.ai/me/gpt%202/runs/job");
  EXPECT_EQ(RunUrl("http://127.0.0.1:8080/", "me", "gpt", "job"),
            "http://127.0.0.1:8080/me/gpt/runs/job");
}

TEST(BaseUrlTest, KeepsPrefixAndDropsTrailingSlashes) {
  EXPECT_THAT(CheckBaseUrl("https://host/wandb//"), IsOkAndHolds("https://host/wandb"));
}

TEST(BaseUrlTest, RefusesThePublicServersPages) {
  for (const char* url :
       {"https://wandb.ai", "https://app.wandb.ai", "http://api.wandb.ai", "api.wandb.ai"}) {
    EXPECT_THAT(CheckBaseUrl(url), StatusIs(absl::StatusCode::kInvalidArgument)) << url;
  }
  EXPECT_THAT(CheckBaseUrl("https://my-wandb.ai"), IsOkAndHolds("https://my-wandb.ai"));
}

TEST(BaseUrlTest, EncodesFileStreamPathElements) {
  EXPECT_EQ(FileStreamUrl("https://h/p", "my team", "a/b", "run"),
            "https://h/p/files/my%20team/a%2Fb/run/file_stream");
}

}  // namespace
}  // namespace ranklog::deliver::wandb
