#include "service/query/select_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace ranklog::query {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using enum absl::StatusCode;

model::Run MakeRun(int64_t id, const std::string& project, const std::string& run_id,
                   const std::string& name) {
  model::Run run;
  run.id = id;
  run.project = project;
  run.run_id = run_id;
  run.name = name;
  return run;
}

auto IsRun(int64_t id) { return IsOkAndHolds(Field(&model::Run::id, id)); }

class SelectRunTest : public ::testing::Test {
 protected:
  // Newest first.
  const std::vector<model::Run> runs_ = {
      MakeRun(4, "gpt", "abc", "second"),
      MakeRun(3, "mnist", "abc", "digits"),
      MakeRun(2, "gpt", "xyz", "first"),
      MakeRun(1, "gpt", "old", "first"),
  };
};

TEST_F(SelectRunTest, FindsByIdAndByName) {
  EXPECT_THAT(SelectRun(runs_, "xyz", ""), IsRun(2));
  EXPECT_THAT(SelectRun(runs_, "digits", ""), IsRun(3));
}

TEST_F(SelectRunTest, FindsByUniqueIdPrefix) {
  EXPECT_THAT(SelectRun(runs_, "x", ""), IsRun(2));
  EXPECT_THAT(SelectRun(runs_, "gpt:a", ""), IsRun(4));
  EXPECT_THAT(SelectRun(runs_, "a", ""),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("gpt:abc"), HasSubstr("mnist:abc"))));
  EXPECT_THAT(SelectRun(runs_, "", ""), StatusIs(kInvalidArgument));
  EXPECT_THAT(SelectRun({MakeRun(1, "p", "a1", ""), MakeRun(2, "p", "a2", "two")}, "a", ""),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("p:a1  (started "), HasSubstr("p:a2  (two, started "))));
}

TEST_F(SelectRunTest, LatestIsTheNewest) {
  EXPECT_THAT(SelectRun(runs_, "latest", ""), IsRun(4));
  EXPECT_THAT(SelectRun(runs_, "latest", "mnist"), IsRun(3));
  EXPECT_THAT(SelectRun(runs_, "mnist:latest", ""), IsRun(3));
}

TEST_F(SelectRunTest, ProjectResolvesAmbiguousId) {
  EXPECT_THAT(SelectRun(runs_, "abc", ""),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("gpt:abc"), HasSubstr("mnist:abc"), Not(HasSubstr("xyz")))));
  EXPECT_THAT(SelectRun(runs_, "abc", "mnist"), IsRun(3));
  EXPECT_THAT(SelectRun(runs_, "mnist:abc", ""), IsRun(3));
  EXPECT_THAT(SelectRun(runs_, "gpt:abc", ""), IsRun(4));
}

TEST_F(SelectRunTest, AmbiguousNameListsBothRuns) {
  EXPECT_THAT(SelectRun(runs_, "first", ""),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("gpt:xyz"), HasSubstr("gpt:old"))));
}

TEST_F(SelectRunTest, IdTakesPrecedenceOverName) {
  const std::vector<model::Run> runs = {MakeRun(2, "p", "a", "b"), MakeRun(1, "p", "b", "c")};
  EXPECT_THAT(SelectRun(runs, "b", ""), IsRun(1));
}

TEST_F(SelectRunTest, JobIdMatchesPerRankRuns) {
  std::vector<model::Run> runs = {MakeRun(2, "p", "job-1", "rank-1"),
                                  MakeRun(1, "p", "job-0", "rank-0")};
  runs[0].primary_rank = 1;
  EXPECT_THAT(SelectRun(runs, "job", ""),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("p:job-0"), HasSubstr("p:job-1"))));
  runs.erase(runs.begin());
  EXPECT_THAT(SelectRun(runs, "job", ""), IsRun(1));
  EXPECT_THAT(SelectRun(runs, "jo", ""), IsRun(1)) << "by the beginning of its id";
}

TEST_F(SelectRunTest, NameMayContainColon) {
  const std::vector<model::Run> runs = {MakeRun(1, "p", "a", "lr: 3e-4")};
  EXPECT_THAT(SelectRun(runs, "lr: 3e-4", ""), IsRun(1));
}

TEST_F(SelectRunTest, UnknownRunListsNewestRuns) {
  EXPECT_THAT(SelectRun(runs_, "nothing", ""),
              StatusIs(kNotFound, AllOf(HasSubstr("'nothing'"), HasSubstr("gpt:abc"))));
  EXPECT_THAT(SelectRun(runs_, "nothing", "mnist"), StatusIs(kNotFound, Not(HasSubstr("gpt:"))));
  EXPECT_THAT(SelectRun({}, "latest", ""), StatusIs(kNotFound, HasSubstr("no runs")));
}

TEST_F(SelectRunTest, EmptyNameIsRefused) {
  EXPECT_THAT(SelectRun(runs_, "", ""), StatusIs(kInvalidArgument, HasSubstr("`ranklog runs`")));
}

TEST_F(SelectRunTest, OtherProjectsRunIsNamed) {
  EXPECT_THAT(SelectRun(runs_, "mnist:xyz", ""),
              StatusIs(kNotFound, AllOf(HasSubstr("in another project there is:"),
                                        HasSubstr("gpt:xyz"), Not(HasSubstr("mnist:abc")))));
  EXPECT_THAT(SelectRun(runs_, "xyz", "nop"), StatusIs(kNotFound, HasSubstr("gpt:xyz")));
  EXPECT_THAT(SelectRun(runs_, "latest", "nop"),
              StatusIs(kNotFound, HasSubstr("there are no runs in project 'nop' yet")));
}

TEST_F(SelectRunTest, BeginningOfIdIsNotWhole) {
  const model::Run run = MakeRun(1, "gpt", "abc-0", "first");
  for (const char* text : {"abc-0", "first", "latest", "gpt:abc-0", "gpt:first"}) {
    EXPECT_TRUE(NamesWholeRun(run, text)) << text;
  }
  for (const char* text : {"ab", "abc", "gpt:ab", "gpt:abc", "mnist:abc-0"}) {
    EXPECT_FALSE(NamesWholeRun(run, text)) << text;
  }
}

TEST_F(SelectRunTest, RunIsPreferredOverLocalPart) {
  std::vector<model::Run> runs = {MakeRun(2, "p", "a", "n"), MakeRun(1, "p", "a", "n")};
  runs[0].local_only = true;
  EXPECT_THAT(SelectRun(runs, "a", ""), IsRun(1));
}

}  // namespace
}  // namespace ranklog::query
