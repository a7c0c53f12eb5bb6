#include "client/facts/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ranklog::internal {
namespace {

using ::testing::ElementsAre;

const std::string kHex(40, 'a');
const std::string kLong = "0123456789abcdefghijKLMN";

TEST(SecretsTest, ValuesOfSecretFlagsAreMasked) {
  EXPECT_THAT(MaskArguments({"--api-key=abc", "--api-key", "abc", "--lr", "3e-4"}, {}),
              ElementsAre("--api-key=***", "--api-key", "***", "--lr", "3e-4"));
  EXPECT_THAT(MaskArguments({"-password", "-x", "--Token", "--auth", "b", "c"}, {}),
              ElementsAre("-password", "***", "--Token", "--auth", "***", "c"));
  EXPECT_THAT(MaskArguments({"wandb.api_key=abc", "lr=1", "key"}, {}),
              ElementsAre("wandb.api_key=***", "lr=1", "key"));
  for (const char* name : {"--my-secret", "--db_passwd", "--CREDENTIALS", "--jwt", "--oauth"}) {
    EXPECT_THAT(MaskArguments({name, "x"}, {}), ElementsAre(name, "***"));
  }
}

TEST(SecretsTest, UsersOfUrlsAreMasked) {
  EXPECT_THAT(MaskArguments({"--data=s3://me:pw@host/path@1", "http://h/a@b", "https://tok@h"}, {}),
              ElementsAre("--data=s3://***@host/path@1", "http://h/a@b", "https://***@h"));
  EXPECT_THAT(MaskArguments({"a://b:c@d e://f:g@h", "://", "x://@"}, {}),
              ElementsAre("a://***@d e://***@h", "://", "x://***@"));
}

// In quadratic time, this takes minutes.
TEST(SecretsTest, ManyUrlsTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += "://";
  EXPECT_EQ(MaskText(text, {}), text);
}

TEST(SecretsTest, KnownCredentialsAreMasked) {
  EXPECT_THAT(MaskArguments({"x=my-login-1", "me", "some"},
                            {{"WANDB_USERNAME", "me"}, {"WANDB_API_KEY", "my-login"}, {"E", ""}}),
              ElementsAre("x=***-1", "***", "some"));
}

TEST(SecretsTest, FormsOfKeysAreMasked) {
  EXPECT_THAT(MaskArguments({kHex, "id=" + kHex + ".", kHex + "a", std::string(40, 'g')}, {}),
              ElementsAre("***", "id=***.", kHex + "a", std::string(40, 'g')));
  for (const char* prefix : {"hf_", "sk-", "AKIA", "ghp_", "glpat-", "wandb_v1_"}) {
    EXPECT_THAT(MaskArguments({prefix + kLong, "a " + (prefix + kLong) + " b", prefix}, {}),
                ElementsAre("***", "a *** b", prefix));
  }
  EXPECT_THAT(MaskArguments({"-H", "Authorization: Bearer x"}, {}),
              ElementsAre("-H", "Authorization:***"));
}

// The padding of base64 is no assignment.
TEST(SecretsTest, HeadersAreMaskedInOneArgumentAndInSeveral) {
  EXPECT_THAT(MaskArguments({"-HAuthorization: Bearer dXNl==", "Proxy-Authorization: Basic dXNl=",
                             "authorization: basic x", "a Bearer x==", "-H", "X-Api-Key: abc"},
                            {}),
              ElementsAre("-HAuthorization:***", "Proxy-Authorization:***", "authorization:***",
                          "a Bearer ***", "-H", "X-Api-Key: ***"));
  EXPECT_THAT(MaskArguments({"Authorization:", "Bearer", "x=", "Bearer", "y",
                             "Authorization:", "Basic", "z", "--auth", "b"},
                            {}),
              ElementsAre("Authorization:", "Bearer", "***", "Bearer", "***",
                          "Authorization:", "Basic", "***", "--auth", "***"));
}

TEST(SecretsTest, NamedValuesInsideTextsAreMasked) {
  EXPECT_THAT(MaskArguments({"--env=API_KEY=x", "--set=db.password=x", "a=1,api_key=x,b=2",
                             "Server=s;Password='x y';Pwd=z", "{\"api_key\": \"x\", \"lr\": 1}",
                             "api_key: x", "--apikey:x", "http://h/a?private_token=x&b=1"},
                            {}),
              ElementsAre("--env=API_KEY=***", "--set=db.password=***", "a=1,api_key=***,b=2",
                          "Server=s;Password='***';Pwd=***", "{\"api_key\": \"***\", \"lr\": 1}",
                          "api_key: ***", "--apikey:***", "http://h/a?private_token=***&b=1"));
  EXPECT_EQ(MaskText("me/image?token=x", {}), "me/image?token=***");
  EXPECT_EQ(MaskText("api_key=x -H 'Authorization: Basic y='", {}),
            "api_key=*** -H 'Authorization:***");
}

TEST(SecretsTest, OrdinaryArgumentsStay) {
  const std::vector<std::string> usual = {"",
                                          "-",
                                          "--",
                                          "=",
                                          "train.py",
                                          "--lr=1e-3",
                                          "a@b.c",
                                          "--tokenizer",
                                          "bpe:500",
                                          "--author",
                                          "me",
                                          "--num-tokens=512",
                                          "--max_tokens",
                                          "1024",
                                          "--key-frames",
                                          "5",
                                          "key://host",
                                          "tokens: 10",
                                          "--compass",
                                          "n"};
  EXPECT_EQ(MaskArguments(usual, {}), usual);
}

}  // namespace
}  // namespace ranklog::internal
