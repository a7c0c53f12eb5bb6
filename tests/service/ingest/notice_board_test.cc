#include "service/ingest/notice_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ranklog::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Notice Notice(const std::string& key, const std::string& text, bool over = false) {
  v1::Notice notice;
  notice.set_key(key);
  notice.set_text(text);
  notice.set_over(over);
  return notice;
}

class NoticeBoardTest : public ::testing::Test {
 protected:
  NoticeBoard::Listener Listener() {
    return [this](const v1::Notice& notice) { heard_.push_back(notice.text()); };
  }
  static std::vector<std::string> Texts(const std::vector<v1::Notice>& notices) {
    std::vector<std::string> texts;
    for (const v1::Notice& notice : notices) texts.push_back(notice.text());
    return texts;
  }

  NoticeBoard board_;
  std::vector<std::string> heard_;
};

TEST_F(NoticeBoardTest, ListenersGetOwnAndGlobalNotices) {
  board_.Post(NoticeBoard::kAllRuns, Notice("store", "full"));
  const uint64_t listener = board_.AddListener(Listener());
  EXPECT_THAT(heard_, ElementsAre("full"));
  board_.Post(1, Notice("wandb", "early"));
  EXPECT_THAT(heard_, ElementsAre("full"));
  EXPECT_THAT(Texts(board_.FollowRun(listener, 1)), ElementsAre("full", "early"));
  board_.Post(2, Notice("wandb", "another's"));
  board_.Post(1, Notice("wandb", "mine"));
  EXPECT_THAT(heard_, ElementsAre("full", "mine"));
  board_.RemoveListener(listener);
  board_.Post(1, Notice("wandb", "late"));
  EXPECT_THAT(heard_, ElementsAre("full", "mine"));
}

TEST_F(NoticeBoardTest, RepeatedNoticeIsSentOnce) {
  const uint64_t listener = board_.AddListener(Listener());
  board_.FollowRun(listener, 1);
  board_.Post(1, Notice("wandb", "", /*over=*/true));
  for (int i = 0; i < 3; ++i) board_.Post(1, Notice("wandb", "no key"));
  for (int i = 0; i < 3; ++i) board_.Post(1, Notice("wandb", "again", /*over=*/true));
  EXPECT_THAT(heard_, ElementsAre("no key", "again"));
  EXPECT_THAT(board_.FollowRun(listener, 1), IsEmpty());
  board_.Post(1, Notice("renamed", "job-2"));
  board_.Forget(1);
  EXPECT_THAT(board_.FollowRun(listener, 1), IsEmpty());
}

TEST_F(NoticeBoardTest, EachListenerGetsRunIdOnce) {
  board_.FollowRun(board_.AddListener(Listener()), 1);
  board_.FollowRun(board_.AddListener(Listener()), 2);
  board_.SendRunId(1, "");
  EXPECT_THAT(heard_, IsEmpty());
  for (int i = 0; i < 3; ++i) board_.SendRunId(1, "job-0");
  EXPECT_THAT(heard_, ElementsAre("job-0"));
  board_.FollowRun(board_.AddListener(Listener()), 1);
  board_.SendRunId(1, "job-0");
  EXPECT_THAT(heard_, ElementsAre("job-0", "job-0"));
  board_.SendRunId(1, "job-4");
  EXPECT_THAT(heard_, ElementsAre("job-0", "job-0", "job-4", "job-4"));
}

}  // namespace
}  // namespace ranklog::ingest
