#include "client/run/user_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ranklog::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kUrl[] = "https://wandb.ai/me/gpt/runs/job";

class UserMessagesTest : public ::testing::Test {
 protected:
  static Settings Job(int rank = 0) {
    Settings settings;
    settings.run_id = "job";
    settings.rank = rank;
    settings.world_size = 2;
    return settings;
  }
  UserMessages Make(const Settings& settings = Job()) {
    return UserMessages(settings,
                        [this](Severity, const std::string& text) { lines_.push_back(text); });
  }

  static v1::ServerMessage Hello(const std::string& destination = "local") {
    v1::ServerMessage message;
    message.mutable_hello()->set_run_id("job");
    message.mutable_hello()->add_destinations(destination);
    return message;
  }
  static v1::ServerMessage Notice(const std::string& key, const std::string& text,
                                  bool over = false,
                                  v1::Notice::Severity severity = v1::Notice::WARNING) {
    v1::ServerMessage message;
    v1::Notice* const notice = message.add_notices();
    notice->set_key(key);
    notice->set_text(text);
    notice->set_over(over);
    notice->set_severity(severity);
    return message;
  }
  static UserMessages::Facts Ended(UserMessages::Facts::End end) {
    UserMessages::Facts facts;
    facts.end = end;
    facts.stats.rows_logged = 100;
    facts.stats.rows_durable = end == UserMessages::Facts::End::kDurable ? 100 : 60;
    return facts;
  }
  // Calls PrintDue(), and returns the printed lines.
  std::vector<std::string> Said(UserMessages& messages, const UserMessages::Facts& facts = {}) {
    messages.PrintDue(now_, facts);
    return std::exchange(lines_, {});
  }

  UserMessages::Time now_ = UserMessages::Time() + std::chrono::hours(1);
  std::vector<std::string> lines_;
};

TEST_F(UserMessagesTest, RowsInMemoryAreReportedLost) {
  UserMessages messages = Make();
  UserMessages::Facts facts = Ended(UserMessages::Facts::End::kSpooled);
  facts.unconnected = "no daemon";
  facts.spool_notice = "no room; the spool is in anonymous memory";
  facts.rows_in_memory = true;
  EXPECT_TRUE(messages.PrintDue(UserMessages::Time(seconds(1)), facts));
  EXPECT_THAT(lines_, ElementsAre("no room; the spool is in anonymous memory",
                                  "run job: 60 of 100 rows of this rank are durable, the rest is "
                                  "lost with this process: no daemon"));
}

TEST_F(UserMessagesTest, PrintsRunLineOnce) {
  UserMessages messages = Make();
  EXPECT_THAT(Said(messages), IsEmpty());
  messages.OnMessage(Hello());
  EXPECT_THAT(Said(messages),
              ElementsAre("run job (main, 2 ranks) is kept on this node; look at it: "
                          "ranklog show job"));
  messages.OnMessage(Hello());
  EXPECT_THAT(Said(messages), IsEmpty());
}

TEST_F(UserMessagesTest, RunLineNamesOtherStateDirectory) {
  Settings settings = Job();
  settings.state_dir = "/asked";
  UserMessages messages = Make(settings);
  messages.OnMessage(Hello());
  UserMessages::Facts facts;
  facts.other_state_dir = "/kept";
  EXPECT_THAT(
      Said(messages, facts),
      ElementsAre("run job (main, 2 ranks) is kept on this node; look at it: ranklog "
                  "--state-dir /kept show job; the running daemon keeps /kept, not /asked"));
}

TEST_F(UserMessagesTest, RunIdMayArriveLater) {
  UserMessages messages = Make(Job(/*rank=*/3));
  v1::ServerMessage hello = Hello();
  hello.mutable_hello()->clear_run_id();
  messages.OnMessage(hello);
  EXPECT_EQ(messages.run_id(), "job") << "as it was given";
  messages.OnMessage(Notice("run", "job-2", /*over=*/false, v1::Notice::INFO));
  EXPECT_EQ(messages.run_id(), "job-2");
  EXPECT_THAT(Said(messages), IsEmpty());
}

TEST_F(UserMessagesTest, FirstLineIncludesStateNotice) {
  UserMessages messages = Make();
  v1::ServerMessage hello = Hello();
  *hello.add_notices() =
      Notice("state", "the log is on tmpfs", /*over=*/false, v1::Notice::INFO).notices(0);
  messages.OnMessage(hello);
  EXPECT_THAT(Said(messages),
              ElementsAre("run job (main, 2 ranks) is kept on this node; look at it: "
                          "ranklog show job; the log is on tmpfs"));
}

// Waiting helps only if the run goes to a tracker, and the user has not chosen to wait already.
TEST_F(UserMessagesTest, AdvisesToWaitOnlyIfUseful) {
  for (const bool awaits : {false, true}) {
    for (const std::string destination : {"local", "wandb"}) {
      Settings settings = Job();
      settings.delivery_timeout = awaits ? minutes(5) : minutes(0);
      UserMessages messages = Make(settings);
      v1::ServerMessage hello = Hello(destination);
      *hello.add_notices() =
          Notice("state", "the log ends: mount a volume there", /*over=*/false, v1::Notice::INFO)
              .notices(0);
      *hello.add_notices() = Notice("url", kUrl, /*over=*/false, v1::Notice::INFO).notices(0);
      messages.OnMessage(hello);
      const bool advises = destination == "wandb" && !awaits;
      EXPECT_THAT(
          Said(messages),
          ElementsAre(EndsWith(advises ? "mount a volume there, or set RANKLOG_FINISH=delivered"
                                       : "mount a volume there")));
    }
  }
}

TEST_F(UserMessagesTest, PrintsARequestedStopOnce) {
  UserMessages messages = Make();
  messages.OnMessage(Hello("wandb"));
  messages.OnMessage(Notice("url", kUrl, /*over=*/false, v1::Notice::INFO));
  Said(messages);
  const v1::ServerMessage stop =
      Notice("stop", "the run was asked to stop", /*over=*/false, v1::Notice::INFO);
  messages.OnMessage(stop);
  EXPECT_THAT(Said(messages), ElementsAre("the run was asked to stop"));
  v1::ServerMessage again = Hello("wandb");  // a new connection
  *again.add_notices() = stop.notices(0);
  messages.OnMessage(again);
  now_ += minutes(2);
  EXPECT_THAT(Said(messages), IsEmpty());
}

TEST_F(UserMessagesTest, FirstLineWaitsForTrackerUrl) {
  UserMessages messages = Make();
  messages.OnMessage(Hello("wandb"));
  EXPECT_THAT(Said(messages), IsEmpty());
  messages.OnMessage(Notice("url", kUrl, /*over=*/false, v1::Notice::INFO));
  EXPECT_THAT(Said(messages), ElementsAre(HasSubstr(std::string("goes to wandb: ") + kUrl)));

  UserMessages late = Make();
  late.OnMessage(Hello("wandb"));
  EXPECT_THAT(Said(late), IsEmpty());
  now_ += UserMessages::kUrlGrace;
  EXPECT_THAT(Said(late), ElementsAre(HasSubstr("goes to wandb; look at it")));
  late.OnMessage(Notice("url", kUrl, /*over=*/false, v1::Notice::INFO));
  EXPECT_THAT(Said(late), ElementsAre(std::string("run job is at ") + kUrl));
  EXPECT_THAT(Said(late), IsEmpty());
}

TEST_F(UserMessagesTest, OtherRanksPrintOnlyProblems) {
  UserMessages messages = Make(Job(/*rank=*/1));
  messages.OnMessage(Hello());
  EXPECT_THAT(Said(messages), IsEmpty());
  messages.OnMessage(Notice("store", "the disk is full"));
  EXPECT_THAT(Said(messages), ElementsAre("the disk is full"));
  messages.OnMessage(Notice("store", "stores again", /*over=*/true));
  EXPECT_THAT(Said(messages), ElementsAre("stores again"));
  EXPECT_THAT(Said(messages, Ended(UserMessages::Facts::End::kDurable)), IsEmpty());
}

TEST_F(UserMessagesTest, RepeatedTroubleIsRateLimited) {
  UserMessages messages = Make();
  messages.OnMessage(Notice("wandb", "no key"));
  EXPECT_THAT(Said(messages), ElementsAre("no key"));
  now_ += minutes(2);
  EXPECT_THAT(Said(messages), IsEmpty()) << "it is the same still";
  messages.OnMessage(Notice("wandb", "HTTP 404"));
  EXPECT_THAT(Said(messages), ElementsAre("HTTP 404"));
  for (int i = 0; i < 50; ++i) {
    now_ += seconds(1);
    messages.OnMessage(Notice("wandb", i % 2 == 0 ? "HTTP 500" : "HTTP 503"));
    EXPECT_THAT(Said(messages), IsEmpty());
  }
  now_ += minutes(1);
  EXPECT_THAT(Said(messages), ElementsAre("HTTP 503"));
  messages.OnMessage(Notice("wandb", "", /*over=*/true));
  EXPECT_THAT(Said(messages), ElementsAre("over: HTTP 503"));
  messages.OnMessage(Notice("wandb", "HTTP 503"));
  EXPECT_THAT(Said(messages), IsEmpty());  // it comes and goes
  messages.OnMessage(Notice("wandb", "", /*over=*/true));
  EXPECT_THAT(Said(messages), IsEmpty());
}

TEST_F(UserMessagesTest, NewConnectionClearsOldTroubles) {
  UserMessages messages = Make();
  messages.OnMessage(Notice("store", "the disk is full"));
  EXPECT_THAT(Said(messages), ElementsAre("the disk is full"));
  EXPECT_EQ(messages.DaemonTrouble(), "the disk is full");
  messages.OnMessage(Hello());
  EXPECT_EQ(messages.DaemonTrouble(), "");
  EXPECT_THAT(Said(messages), ElementsAre(HasSubstr("run job"), "over: the disk is full"));
}

TEST_F(UserMessagesTest, MissingDaemonIsReportedAfterGrace) {
  UserMessages messages = Make();
  UserMessages::Facts alone;
  alone.unconnected = "no ranklogd is found";
  EXPECT_THAT(Said(messages, alone), IsEmpty());
  now_ += UserMessages::kConnectGrace - milliseconds(1);
  EXPECT_THAT(Said(messages, alone), IsEmpty());
  now_ += milliseconds(1);
  EXPECT_THAT(Said(messages, alone),
              ElementsAre(AllOf(HasSubstr("no daemon accepts rows; they stay in the spool: "),
                                HasSubstr("no ranklogd is found"))));
  EXPECT_THAT(Said(messages), ElementsAre("a daemon accepts the rows"));
  now_ += minutes(2);
  EXPECT_THAT(Said(messages, alone), IsEmpty()) << "the next one has its moment, too";
}

TEST_F(UserMessagesTest, HungDaemonIsReportedAndCleared) {
  UserMessages messages = Make();
  UserMessages::Facts hangs;
  hangs.stalled = milliseconds(2900);
  EXPECT_THAT(Said(messages, hangs), IsEmpty());
  hangs.stalled = milliseconds(3100);
  EXPECT_THAT(Said(messages, hangs),
              ElementsAre("the daemon has accepted no rows for 3 s; they stay in the spool; "
                          "run `ranklog doctor` to find the reason"));
  now_ += minutes(2);
  hangs.stalled = minutes(2);
  EXPECT_THAT(Said(messages, hangs), IsEmpty());
  EXPECT_THAT(Said(messages), ElementsAre("the daemon accepts rows again"));

  UserMessages at_the_end = Make();
  UserMessages::Facts facts = Ended(UserMessages::Facts::End::kSpooled);
  facts.stalled = seconds(14);
  EXPECT_THAT(
      Said(at_the_end, facts).back(),
      HasSubstr("the rest waits in the spool for the daemon: the daemon has accepted no rows "
                "for 14 s"));

  UserMessages full = Make();
  full.OnMessage(Notice("store", "the disk is full"));
  EXPECT_THAT(Said(full, hangs), ElementsAre("the disk is full"));
}

TEST_F(UserMessagesTest, ReportsRefusedRowsWithReasons) {
  UserMessages messages = Make();
  UserMessages::Facts facts;
  facts.stats.lost_invalid = 1;
  facts.refusal = "a key is empty";
  EXPECT_THAT(Said(messages, facts), ElementsAre("1 row refused so far: a key is empty"));
  facts.stats.lost_step_behind = 8;
  facts.stats.lost_damaged = 1;
  EXPECT_THAT(Said(messages, facts), IsEmpty());
  now_ += UserMessages::kAgain;
  EXPECT_THAT(
      Said(messages, facts),
      ElementsAre("10 rows refused so far: a key is empty (1); a step is below the last one "
                  "of its thread (8); the spool is damaged (1)"));
}

TEST_F(UserMessagesTest, PrintsEachReasonForLeftOutValuesOnce) {
  UserMessages messages = Make();
  UserMessages::Facts facts;
  facts.stats.lost_values = 1;
  facts.left_out = {"the key _step is reserved"};
  EXPECT_THAT(Said(messages, facts),
              ElementsAre("a value was left out of its row: the key _step is reserved"));
  facts.stats.lost_values = 500;
  now_ += UserMessages::kAgain;
  EXPECT_THAT(Said(messages, facts), IsEmpty());
  facts.left_out.push_back("a key is not UTF-8");
  EXPECT_THAT(Said(messages, facts),
              ElementsAre("a value was left out of its row: a key is not UTF-8"));
}

TEST_F(UserMessagesTest, TheLastLineCountsLeftOutValues) {
  UserMessages messages = Make(Job(/*rank=*/1));
  UserMessages::Facts facts = Ended(UserMessages::Facts::End::kDurable);
  facts.stats.lost_values = 2;
  EXPECT_THAT(Said(messages, facts),
              ElementsAre("run job: all 100 rows of this rank are durable; 2 values left out of "
                          "rows"));
}

TEST_F(UserMessagesTest, PrintsSpoolNoticeOnce) {
  UserMessages messages = Make();
  UserMessages::Facts facts;
  facts.spool_notice = "no room; the spool is in anonymous memory";
  EXPECT_THAT(Said(messages, facts), ElementsAre(facts.spool_notice));
  EXPECT_THAT(Said(messages, facts), IsEmpty());
}

TEST_F(UserMessagesTest, WarnsWhenSpoolFills) {
  UserMessages messages = Make();
  UserMessages::Facts facts;
  facts.spool_used = 0.8;
  EXPECT_THAT(Said(messages, facts),
              ElementsAre(AllOf(HasSubstr("the spool is 80 % full"), HasSubstr("ranklog doctor"))));
  facts.spool_used = 0.6;
  EXPECT_THAT(Said(messages, facts), IsEmpty());
  facts.spool_used = 0.1;
  EXPECT_THAT(Said(messages, facts), ElementsAre("the spool has room again"));
}

TEST_F(UserMessagesTest, PrintsOneLineAtEnd) {
  UserMessages well = Make();
  well.OnMessage(Hello());
  EXPECT_THAT(Said(well), SizeIs(1));
  EXPECT_TRUE(well.PrintDue(now_, Ended(UserMessages::Facts::End::kDurable)));
  EXPECT_TRUE(well.PrintDue(now_, Ended(UserMessages::Facts::End::kDurable)));
  EXPECT_THAT(std::exchange(lines_, {}),
              ElementsAre("run job: all 100 rows of this rank are durable"));

  UserMessages waits = Make();
  waits.OnMessage(Hello("wandb"));
  waits.OnMessage(Notice("wandb", "rows wait for wandb: HTTP 401"));
  EXPECT_THAT(Said(waits, Ended(UserMessages::Facts::End::kDurable)),
              ElementsAre(HasSubstr("goes to wandb"), HasSubstr("HTTP 401"),
                          AllOf(HasSubstr("all 100 rows of this rank are durable; rows wait for "
                                          "wandb: HTTP 401"),
                                Not(HasSubstr("sends the rest to wandb")))));

  UserMessages spooled = Make();
  UserMessages::Facts facts = Ended(UserMessages::Facts::End::kSpooled);
  facts.unconnected = "no ranklogd is found";
  EXPECT_THAT(Said(spooled, facts),
              ElementsAre("run job: 60 of 100 rows of this rank are durable, the rest waits in the "
                          "spool for the daemon: no ranklogd is found"));
}

TEST_F(UserMessagesTest, DurableRowsAreNotReportedWaiting) {
  UserMessages messages = Make();
  messages.OnMessage(Hello());
  EXPECT_THAT(Said(messages), SizeIs(1));
  UserMessages::Facts facts = Ended(UserMessages::Facts::End::kSpooled);
  facts.stats.rows_durable = facts.stats.rows_logged;
  EXPECT_THAT(Said(messages, facts), ElementsAre("run job: all 100 rows of this rank are durable"));

  UserMessages updates = Make();
  facts.stats.updates_pending = 1;
  EXPECT_THAT(Said(updates, facts),
              ElementsAre("run job: all 100 rows of this rank are durable, the rest waits in the "
                          "spool for the daemon"));
}

TEST_F(UserMessagesTest, OneRowUsesSingular) {
  UserMessages messages = Make();
  UserMessages::Facts facts = Ended(UserMessages::Facts::End::kDurable);
  facts.stats.rows_logged = facts.stats.rows_durable = 1;
  EXPECT_THAT(Said(messages, facts), ElementsAre("run job: 1 row of this rank is durable"));
}

TEST_F(UserMessagesTest, ReportsRefusedUpdates) {
  UserMessages messages = Make();
  UserMessages::Facts facts;
  facts.stats.updates_refused = 1;
  facts.update_refusal = "one of 90000000 bytes does not fit into a spool";
  EXPECT_THAT(
      Said(messages, facts),
      ElementsAre(
          "1 call of Config, Summary, DefineMetric, LogArtifact or Save refused so far: one of "
          "90000000 bytes does not fit into a spool"));
  EXPECT_THAT(Said(messages, facts), IsEmpty()) << "once";
  facts.stats.rows_logged = facts.stats.rows_durable = 1;
  facts.end = UserMessages::Facts::End::kDurable;
  EXPECT_THAT(
      Said(messages, facts),
      ElementsAre(AllOf(
          HasSubstr("1 row of this rank is durable"),
          HasSubstr("1 call of Config, Summary, DefineMetric, LogArtifact or Save refused: "))));
}

TEST_F(UserMessagesTest, TheLastLineCountsRefusedRows) {
  UserMessages messages = Make(Job(/*rank=*/1));
  UserMessages::Facts facts = Ended(UserMessages::Facts::End::kDurable);
  facts.stats.lost_invalid = 2;
  facts.refusal = "a key is empty";
  EXPECT_THAT(Said(messages, facts),
              ElementsAre("2 rows refused so far: a key is empty",
                          "run job: all 100 rows of this rank are durable; 2 rows refused: a key "
                          "is empty"));

  UserMessages other = Make(Job(/*rank=*/1));
  facts.stats.lost_ring_full = 3;
  facts.spool_full = "the spool is full: the daemon has accepted no rows for 9 s";
  facts.stats.lost_after_finish = 1;
  EXPECT_THAT(Said(other, facts).back(),
              HasSubstr("; 6 rows refused: a key is empty (2); the spool is full: the "
                        "daemon has accepted no rows for 9 s (3); the run has finished (1)"));
}

TEST_F(UserMessagesTest, ReportsDeliveryProgressWhileWaiting) {
  UserMessages messages = Make();
  messages.OnMessage(Hello("wandb"));
  EXPECT_TRUE(messages.HasTracker());
  const auto told = [&](int rows, bool over) {
    return Notice("delivered", std::to_string(rows) + " of 90 rows delivered", over,
                  v1::Notice::INFO);
  };
  messages.OnMessage(Notice("url", kUrl, /*over=*/false, v1::Notice::INFO));
  messages.OnMessage(told(40, false));
  EXPECT_THAT(Said(messages), SizeIs(1)) << "while the run goes on nobody wants to know";
  UserMessages::Facts waits;
  waits.awaits_delivery = true;
  EXPECT_THAT(Said(messages, waits), IsEmpty());
  now_ += UserMessages::kDeliveryGrace;
  EXPECT_THAT(Said(messages, waits),
              ElementsAre("run job waits until the tracker has it: 40 of 90 rows delivered"));
  messages.OnMessage(told(50, false));
  EXPECT_THAT(Said(messages, waits), IsEmpty());
  now_ += UserMessages::kDeliveryLine;
  EXPECT_THAT(Said(messages, waits), ElementsAre(HasSubstr("50 of 90 rows delivered")));
  messages.OnMessage(Notice("wandb", "rows wait for wandb: answered 503"));
  EXPECT_THAT(Said(messages, waits), ElementsAre("rows wait for wandb: answered 503"));
  now_ += UserMessages::kDeliveryLine;
  EXPECT_THAT(Said(messages, waits),
              ElementsAre("run job waits until the tracker has it: 50 of 90 rows delivered; rows "
                          "wait for wandb: answered 503"));
  messages.OnMessage(Notice("wandb", "", /*over=*/true));
  EXPECT_THAT(Said(messages, waits), ElementsAre(HasSubstr("over: ")));
  now_ += UserMessages::kDeliveryLine;
  EXPECT_THAT(Said(messages, waits), ElementsAre(EndsWith(": 50 of 90 rows delivered")));
  EXPECT_FALSE(messages.delivered());
  messages.OnMessage(told(90, true));
  EXPECT_TRUE(messages.delivered());
  EXPECT_THAT(Said(messages, Ended(UserMessages::Facts::End::kDurable)),
              ElementsAre("run job: all 100 rows of this rank are durable and delivered; see " +
                          std::string(kUrl)));
  EXPECT_EQ(messages.url(), kUrl);

  UserMessages local = Make();
  local.OnMessage(Hello());
  EXPECT_FALSE(local.HasTracker());
}

TEST_F(UserMessagesTest, LastLineCountsDeliveredRows) {
  UserMessages messages = Make();
  messages.OnMessage(Hello("wandb"));
  messages.OnMessage(
      Notice("delivered", "40 of 90 rows delivered", /*over=*/false, v1::Notice::INFO));
  EXPECT_THAT(Said(messages, Ended(UserMessages::Facts::End::kDurable)),
              ElementsAre(HasSubstr("goes to wandb"),
                          "run job: all 100 rows of this rank are durable, 40 of 90 rows "
                          "delivered; the daemon sends the rest to wandb"));
}

TEST_F(UserMessagesTest, FirstLineNamesRunAndDestination) {
  Settings settings = Job();
  settings.world_size = 1;
  UserMessages messages = Make(settings);
  v1::ServerMessage hello = Hello("wandb");
  hello.mutable_hello()->set_run_id("job-2");
  messages.OnMessage(hello);
  EXPECT_THAT(Said(messages), IsEmpty());
  now_ += UserMessages::kUrlGrace;
  EXPECT_THAT(Said(messages),
              ElementsAre("run job-2 (main, 1 rank) goes to wandb; look at it: ranklog show "
                          "job-2"));
}

TEST_F(UserMessagesTest, WorstDaemonTroubleWins) {
  UserMessages messages = Make();
  messages.OnMessage(Notice("news", "a word", /*over=*/false, v1::Notice::INFO));
  EXPECT_EQ(messages.DaemonTrouble(), "");
  messages.OnMessage(Notice("store", "the disk is full", /*over=*/false, v1::Notice::ERROR));
  messages.OnMessage(Notice("wandb", "no key"));
  EXPECT_EQ(messages.DaemonTrouble(), "the disk is full");
}

TEST_F(UserMessagesTest, RunIdNoticePrecedesFirstLine) {
  UserMessages messages = Make();
  v1::ServerMessage hello = Hello();
  hello.mutable_hello()->set_run_id("-job-2");
  *hello.add_notices() =
      Notice("start", "run '-job' has ended", /*over=*/false, v1::Notice::INFO).notices(0);
  messages.OnMessage(hello);
  EXPECT_THAT(Said(messages),
              ElementsAre("run '-job' has ended", HasSubstr("look at it: ranklog show -- -job-2")));
  EXPECT_THAT(Said(messages), IsEmpty());
}

TEST_F(UserMessagesTest, MistakesAreLimitedAndPrintedOnce) {
  UserMessages messages = Make();
  for (int i = 0; i < 100; ++i) messages.Warn("a mistake");
  EXPECT_THAT(Said(messages), SizeIs(16));
  EXPECT_THAT(Said(messages), IsEmpty());
}

TEST_F(UserMessagesTest, LastLineWarnsUnlessDurable) {
  for (const auto end : {UserMessages::Facts::End::kDurable, UserMessages::Facts::End::kSpooled}) {
    std::vector<Severity> severities;
    UserMessages messages(
        Job(), [&](Severity severity, const std::string&) { severities.push_back(severity); });
    messages.PrintDue(now_, Ended(end));
    EXPECT_THAT(severities,
                ElementsAre(end == UserMessages::Facts::End::kDurable ? Severity::kInfo
                                                                      : Severity::kWarning));
  }
}

TEST_F(UserMessagesTest, WithoutSinkNothingIsPrinted) {
  UserMessages messages(Job(), nullptr);
  messages.OnMessage(Hello());
  messages.OnMessage(Notice("store", "the disk is full"));
  messages.PrintDue(now_, {});
  EXPECT_EQ(messages.DaemonTrouble(), "the disk is full");
}

}  // namespace
}  // namespace ranklog::internal
