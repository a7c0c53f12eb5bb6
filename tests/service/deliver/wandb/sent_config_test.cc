#include "service/deliver/wandb/documents/sent_config.h"

#include <gtest/gtest.h>

namespace ranklog::deliver::wandb {
namespace {

constexpr bool kCreated = true;

TEST(SentConfigTest, ChangedConfigMustBeSent) {
  SentConfig config;
  config.Set("a", "bare");
  EXPECT_FALSE(config.IsSent());
  EXPECT_EQ(config.ToSend(!kCreated), "a");
  EXPECT_FALSE(config.OnAccepted().has_value());
  EXPECT_TRUE(config.IsSent());
  config.Set("b", "bare");
  EXPECT_FALSE(config.IsSent());
}

TEST(SentConfigTest, AcceptanceWithoutConfigBlamesConfig) {
  SentConfig config;
  config.Set("a", "bare");
  EXPECT_TRUE(config.OnRefused("400"));
  EXPECT_EQ(config.ToSend(!kCreated), "bare");
  EXPECT_EQ(config.ToSend(kCreated), "") << "an existing run keeps its config";
  const auto refused = config.OnAccepted();
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->answer, "400");
  EXPECT_EQ(refused->config, "a");
  EXPECT_TRUE(config.IsSent()) << "it is not sent again";
  EXPECT_FALSE(config.OnAccepted().has_value()) << "one dead letter";
}

TEST(SentConfigTest, RefusalWithoutConfigKeepsConfig) {
  SentConfig config;
  config.Set("a", "bare");
  EXPECT_TRUE(config.OnRefused("400"));
  EXPECT_FALSE(config.OnRefused("403"));
  EXPECT_EQ(config.ToSend(!kCreated), "a");
  EXPECT_FALSE(config.OnAccepted().has_value());
}

TEST(SentConfigTest, NewConfigIncludesARefusedOne) {
  SentConfig config;
  config.Set("a", "bare");
  EXPECT_TRUE(config.OnRefused("400"));
  config.Set("b", "bare");
  EXPECT_EQ(config.ToSend(kCreated), "b");
  EXPECT_FALSE(config.OnAccepted().has_value());
}

TEST(SentConfigTest, ForgottenConfigIsSentAgain) {
  SentConfig config;
  config.Set("a", "bare");
  config.OnAccepted();
  config.Forget();
  EXPECT_FALSE(config.IsSent());
}

}  // namespace
}  // namespace ranklog::deliver::wandb
