#include "service/deliver/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOwn[] = "https://wandb.example.com";

absl::StatusOr<HttpResponse> Code(int code) {
  HttpResponse response;
  response.code = code;
  return response;
}

const absl::StatusOr<HttpResponse> kNotSent = absl::FailedPreconditionError("not sent");

TEST(AdviceTest, LoginNamesAnyOtherServer) {
  EXPECT_EQ(wandb::Wandb().LoginCommand(""), "`ranklog login`");
  EXPECT_EQ(wandb::Wandb().LoginCommand("https://api.wandb.ai/"), "`ranklog login`");
  EXPECT_EQ(wandb::Wandb().LoginCommand("http://127.0.0.1:8410"),
            "`ranklog login --base-url http://127.0.0.1:8410`");
}

TEST(AdviceTest, MissingKeyNeedsLogin) {
  EXPECT_EQ(wandb::Wandb().WithLoginCommand(absl::NotFoundError("no key"), kOwn).message(),
            "no key; to continue, run `ranklog login --base-url https://wandb.example.com`");
  EXPECT_EQ(
      wandb::Wandb().WithLoginCommand(absl::InvalidArgumentError("not a key"), kOwn).message(),
      "not a key");
}

TEST(AdviceTest, RefusedKeyNeedsAnother) {
  EXPECT_EQ(Advice(wandb::Wandb(), Code(401), kOwn, /*created=*/true),
            "run `ranklog login --base-url https://wandb.example.com` with a valid key");
  EXPECT_THAT(Advice(wandb::Wandb(), Code(403), kOwn, /*created=*/true), HasSubstr("access"));
}

TEST(AdviceTest, WrongAddressIsCorrectedBeforeCreation) {
  for (const int code : {302, 404}) {
    EXPECT_THAT(Advice(wandb::Wandb(), Code(code), kOwn, /*created=*/false),
                HasSubstr(kCorrectAddress))
        << code;
    EXPECT_THAT(Advice(wandb::Wandb(), Code(code), kOwn, /*created=*/true),
                Not(HasSubstr(kCorrectAddress)))
        << code;
  }
  EXPECT_EQ(Advice(wandb::Wandb(), kNotSent, "foo", /*created=*/false), kCorrectAddress);
  EXPECT_EQ(Advice(wandb::Wandb(), kNotSent, "https://wandb.ai", /*created=*/false),
            kCorrectAddress);
}

TEST(AdviceTest, RefusedHttpCanBeAllowed) {
  EXPECT_THAT(Advice(wandb::Wandb(), kNotSent, "http://10.1.2.3", /*created=*/false),
              HasSubstr("run: RANKLOG_ALLOW_HTTP=1 ranklog sync RUN"));
  EXPECT_EQ(Advice(wandb::Wandb(), kNotSent, "http://10.1.2.3", /*created=*/true),
            "run: RANKLOG_ALLOW_HTTP=1 ranklog sync RUN");
  EXPECT_EQ(Advice(wandb::Wandb(), kNotSent, "http://127.0.0.1", /*created=*/false),
            "correct that");
}

}  // namespace
}  // namespace ranklog::deliver
