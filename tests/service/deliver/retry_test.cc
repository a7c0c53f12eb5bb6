#include "service/deliver/http/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ranklog::deliver {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

absl::StatusOr<HttpResponse> Answer(int code, const std::string& body = "") {
  HttpResponse response;
  response.code = code;
  response.body = body;
  return response;
}

TEST(JudgeTest, MapsStatusCodesToOutcomes) {
  for (const int code : {200, 204, 300})
    EXPECT_EQ(Classify(Answer(code)), Outcome::kAccepted) << code;
  for (const int code : {400, 422}) EXPECT_EQ(Classify(Answer(code)), Outcome::kRefused) << code;
  EXPECT_EQ(Classify(Answer(413)), Outcome::kTooLarge);
  for (const int code : {301, 307, 401, 403, 404, 409, 410, 501}) {
    EXPECT_EQ(Classify(Answer(code)), Outcome::kBlocked) << code;
  }
  for (const int code : {0, 402, 405, 408, 429, 500, 502, 503, 504, 520, 600}) {
    EXPECT_EQ(Classify(Answer(code)), Outcome::kLater) << code;
  }
}

TEST(JudgeTest, TriesAgainAfterABrokenConnection) {
  EXPECT_EQ(Classify(absl::UnavailableError("x")), Outcome::kLater);
  EXPECT_EQ(Classify(absl::DeadlineExceededError("x")), Outcome::kLater);
  EXPECT_EQ(Classify(absl::FailedPreconditionError("certificate")), Outcome::kBlocked);
}

TEST(ExplainTest, ShowsCodeAndStartOfBody) {
  EXPECT_EQ(Explain(Answer(503, "busy\n")), "HTTP 503: busy");
  EXPECT_EQ(Explain(Answer(500)), "HTTP 500");
  EXPECT_EQ(Explain(Answer(200, " \n")), "HTTP 200 with an empty body");
  EXPECT_EQ(Explain(Answer(200, "\n<!doctype html><html><TITLE>Log in\n</TITLE>...")),
            "HTTP 200 with a web page, \"Log in\": the answer is from a proxy or from another "
            "server");
  EXPECT_LE(Explain(Answer(500, std::string(10000, 'x'))).size(), 600);
  EXPECT_EQ(Explain(absl::UnavailableError("no route")), "no route");
  EXPECT_EQ(Explain(Answer(403, "f\xFCr")), "HTTP 403: f\xEF\xBF\xBDr") << "Latin-1";
  const std::string cut = Explain(Answer(500, std::string(499, 'x') + "\xC3\xBC and more"));
  EXPECT_EQ(cut, "HTTP 500: " + std::string(499, 'x')) << "no half of a character";
  EXPECT_LE(Explain(Answer(500, std::string(10000, '\xFC'))).size(), 600);
}

TEST(ExplainTest, ErrorContainsAdvice) {
  EXPECT_TRUE(AwaitsPerson(absl::StrCat(Explain(Answer(401, "no")), kToContinue, "do that")));
  EXPECT_FALSE(AwaitsPerson(Explain(Answer(502, "upstream: HTTP 403"))));
  EXPECT_FALSE(AwaitsPerson(Explain(Answer(503, "busy; to continue, wait"))));
  EXPECT_FALSE(AwaitsPerson("no answer from the tracker"));
}

TEST(BackoffTest, DoublesUpToTheMaximum) {
  Backoff backoff(Backoff::Options{});
  for (const double seconds : {2.0, 4.0, 8.0, 16.0, 32.0}) {
    EXPECT_THAT(backoff.Next(Outcome::kLater, absl::nullopt),
                AllOf(Ge(absl::Seconds(seconds)), Le(absl::Seconds(seconds * 1.25))));
  }
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(backoff.Next(Outcome::kLater, absl::nullopt), absl::Seconds(60));
  backoff.Reset();
  EXPECT_THAT(backoff.Next(Outcome::kLater, absl::nullopt), Le(absl::Seconds(2.5)));
}

TEST(BackoffTest, HonoursRetryAfterUpToLimit) {
  Backoff backoff(Backoff::Options{});
  EXPECT_EQ(backoff.Next(Outcome::kLater, absl::Seconds(7)), absl::Seconds(7));
  EXPECT_EQ(backoff.Next(Outcome::kLater, absl::Hours(9000)), absl::Hours(1));
}

TEST(BackoffTest, BlockedRequestsWaitOneMinute) {
  Backoff backoff(Backoff::Options{});
  EXPECT_EQ(backoff.Next(Outcome::kBlocked, absl::nullopt), absl::Seconds(60));
}

}  // namespace
}  // namespace ranklog::deliver
