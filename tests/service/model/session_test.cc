#include "service/model/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ranklog::model {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

Session Good() {
  Session session;
  session.stream = {"gpt", "job", 5, 77};
  session.identity.local_rank = 1;
  session.identity.local_world_size = 4;
  session.identity.world_size = 8;
  return session;
}

TEST(SessionTest, AcceptsConsistentRanks) {
  EXPECT_OK(Validate(Good()));
  Session session = Good();
  session.identity.local_world_size = 0;  // unknown
  session.settings.rank_statistics = {"mean", "argmax"};
  EXPECT_OK(Validate(session));
  session.settings.rank_statistics = {"none"};
  EXPECT_OK(Validate(session));
}

TEST(SessionTest, NamesEveryProblemAtOnce) {
  Session session = Good();
  session.stream = {"", "", 8, 0};
  EXPECT_THAT(Validate(session),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("project is empty"), HasSubstr("job id is empty"),
                             HasSubstr("rank 8 in a world of 8"), HasSubstr("incarnation is 0"))));
}

TEST(SessionTest, NamesAreLimitedTo256Bytes) {
  Session session = Good();
  session.stream.job_id = std::string(256, 'j');
  EXPECT_OK(Validate(session));
  session.stream.job_id += 'j';
  EXPECT_THAT(Validate(session),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("257 bytes")));
}

TEST(SessionTest, LocalRankMustFitItsNode) {
  Session session = Good();
  session.identity.local_rank = 4;
  EXPECT_THAT(Validate(session),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("on a node with 4 ranks")));
  session.identity.local_rank = 3;
  session.stream.rank = 1;
  EXPECT_OK(Validate(session)) << "launchers number them as they like";
  session = Good();
  session.identity.local_world_size = 9;
  EXPECT_THAT(Validate(session),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("9 ranks in a world of 8")));
}

TEST(SessionTest, UnknownStatisticIsRefused) {
  Session session = Good();
  session.settings.rank_statistics = {"median"};
  EXPECT_THAT(Validate(session),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'median'")));
  session.settings.rank_statistics = {};
  session.settings.rank_statistic_rules = {"loss=median"};
  EXPECT_THAT(Validate(session),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'median'")));
  session.settings.rank_statistic_rules = {"loss=max"};
  EXPECT_OK(Validate(session));
  session.settings.rank_statistics = {"none", "mean"};
  EXPECT_THAT(Validate(session), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("'none' excludes all others")));
}

TEST(LossesTest, TotalSumsAllRows) {
  Losses losses = {.ring_full = 1,
                   .invalid = 2,
                   .step_behind = 4,
                   .too_large = 8,
                   .after_finish = 16,
                   .with_store = 32,
                   .values = 64};
  EXPECT_EQ(losses.total(), 63);
  losses += {.too_large = 100, .with_store = 1000, .values = 5};
  EXPECT_EQ(losses.too_large, 108);
  EXPECT_EQ(losses.values, 69);
  EXPECT_EQ(losses.total(), 1163);
}

}  // namespace
}  // namespace ranklog::model
