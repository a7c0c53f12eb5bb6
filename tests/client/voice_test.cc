#include "client/voice.h"

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

class VoiceTest : public ::testing::Test {
 protected:
  static Settings Job(int rank = 0) {
    Settings settings;
    settings.run_id = "job";
    settings.rank = rank;
    settings.world_size = 2;
    return settings;
  }
  Voice Make(const Settings& settings = Job()) {
    return Voice(settings, [this](Severity, const std::string& text) { lines_.push_back(text); });
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
  static Voice::Facts Ended(Voice::Facts::End end) {
    Voice::Facts facts;
    facts.end = end;
    facts.stats.rows_logged = 100;
    facts.stats.rows_durable = end == Voice::Facts::End::kDurable ? 100 : 60;
    return facts;
  }
  // Calls Look(), and returns the printed lines.
  std::vector<std::string> Said(Voice& voice, const Voice::Facts& facts = {}) {
    voice.Look(now_, facts);
    return std::exchange(lines_, {});
  }

  Voice::Time now_ = Voice::Time() + std::chrono::hours(1);
  std::vector<std::string> lines_;
};

TEST_F(VoiceTest, RowsInMemoryAreSaidToBeLost) {
  Voice voice = Make();
  Voice::Facts facts = Ended(Voice::Facts::End::kSpooled);
  facts.unconnected = "no daemon";
  facts.spool_notice = "no room; the spool is in unnamed memory";
  facts.rows_in_memory = true;
  EXPECT_TRUE(voice.Look(Voice::Time(seconds(1)), facts));
  EXPECT_THAT(lines_, ElementsAre("no room; the spool is in unnamed memory",
                                  "run job: 60 of 100 rows of this rank are durable, the rest is "
                                  "lost with this process: no daemon"));
}

TEST_F(VoiceTest, SaysOneLineWhenTheRunIsKnown) {
  Voice voice = Make();
  EXPECT_THAT(Said(voice), IsEmpty());
  voice.OnMessage(Hello());
  EXPECT_THAT(Said(voice), ElementsAre("run job (main, 2 ranks) is kept on this node; look at it: "
                                       "ranklog show job"));
  voice.OnMessage(Hello());
  EXPECT_THAT(Said(voice), IsEmpty());
}

TEST_F(VoiceTest, LearnsTheRunsIdLater) {
  Voice voice = Make(Job(/*rank=*/3));
  v1::ServerMessage hello = Hello();
  hello.mutable_hello()->clear_run_id();
  voice.OnMessage(hello);
  EXPECT_EQ(voice.run_id(), "job") << "as it was given";
  voice.OnMessage(Notice("run", "job-2", /*over=*/false, v1::Notice::INFO));
  EXPECT_EQ(voice.run_id(), "job-2");
  EXPECT_THAT(Said(voice), IsEmpty());
}

TEST_F(VoiceTest, TheFirstLineSaysThatTheLogEndsWithTheContainer) {
  Voice voice = Make();
  v1::ServerMessage hello = Hello();
  *hello.add_notices() =
      Notice("state", "the log is on tmpfs", /*over=*/false, v1::Notice::INFO).notices(0);
  voice.OnMessage(hello);
  EXPECT_THAT(Said(voice), ElementsAre("run job (main, 2 ranks) is kept on this node; look at it: "
                                       "ranklog show job; the log is on tmpfs"));
}

// Waiting helps only if the run goes to a tracker, and the user has not chosen to wait already.
TEST_F(VoiceTest, AdvisesToWaitOnlyIfUseful) {
  for (const bool awaits : {false, true}) {
    for (const std::string destination : {"local", "wandb"}) {
      Settings settings = Job();
      settings.delivery_timeout = awaits ? minutes(5) : minutes(0);
      Voice voice = Make(settings);
      v1::ServerMessage hello = Hello(destination);
      *hello.add_notices() =
          Notice("state", "the log ends: mount a volume there", /*over=*/false, v1::Notice::INFO)
              .notices(0);
      *hello.add_notices() = Notice("url", kUrl, /*over=*/false, v1::Notice::INFO).notices(0);
      voice.OnMessage(hello);
      const bool advises = destination == "wandb" && !awaits;
      EXPECT_THAT(
          Said(voice),
          ElementsAre(EndsWith(advises ? "mount a volume there, or set RANKLOG_FINISH=delivered"
                                       : "mount a volume there")));
    }
  }
}

TEST_F(VoiceTest, WaitsShortlyForTheAddressAtTheTracker) {
  Voice voice = Make();
  voice.OnMessage(Hello("wandb"));
  EXPECT_THAT(Said(voice), IsEmpty());
  voice.OnMessage(Notice("url", kUrl, /*over=*/false, v1::Notice::INFO));
  EXPECT_THAT(Said(voice), ElementsAre(HasSubstr(std::string("goes to wandb: ") + kUrl)));

  Voice late = Make();
  late.OnMessage(Hello("wandb"));
  EXPECT_THAT(Said(late), IsEmpty());
  now_ += Voice::kUrlGrace;
  EXPECT_THAT(Said(late), ElementsAre(HasSubstr("goes to wandb; look at it")));
  late.OnMessage(Notice("url", kUrl, /*over=*/false, v1::Notice::INFO));
  EXPECT_THAT(Said(late), ElementsAre(std::string("run job is at ") + kUrl));
  EXPECT_THAT(Said(late), IsEmpty());
}

TEST_F(VoiceTest, OtherRanksSayOnlyTroubles) {
  Voice voice = Make(Job(/*rank=*/1));
  voice.OnMessage(Hello());
  EXPECT_THAT(Said(voice), IsEmpty());
  voice.OnMessage(Notice("store", "the disk is full"));
  EXPECT_THAT(Said(voice), ElementsAre("the disk is full"));
  voice.OnMessage(Notice("store", "stores again", /*over=*/true));
  EXPECT_THAT(Said(voice), ElementsAre("stores again"));
  EXPECT_THAT(Said(voice, Ended(Voice::Facts::End::kDurable)), IsEmpty());
}

TEST_F(VoiceTest, SaysATroubleOnceAMinuteAtMost) {
  Voice voice = Make();
  voice.OnMessage(Notice("wandb", "no key"));
  EXPECT_THAT(Said(voice), ElementsAre("no key"));
  now_ += minutes(2);
  EXPECT_THAT(Said(voice), IsEmpty()) << "it is the same still";
  voice.OnMessage(Notice("wandb", "HTTP 404"));
  EXPECT_THAT(Said(voice), ElementsAre("HTTP 404"));
  for (int i = 0; i < 50; ++i) {
    now_ += seconds(1);
    voice.OnMessage(Notice("wandb", i % 2 == 0 ? "HTTP 500" : "HTTP 503"));
    EXPECT_THAT(Said(voice), IsEmpty());
  }
  now_ += minutes(1);
  EXPECT_THAT(Said(voice), ElementsAre("HTTP 503"));
  voice.OnMessage(Notice("wandb", "", /*over=*/true));
  EXPECT_THAT(Said(voice), ElementsAre("over: HTTP 503"));
  voice.OnMessage(Notice("wandb", "HTTP 503"));
  EXPECT_THAT(Said(voice), IsEmpty());  // it comes and goes
  voice.OnMessage(Notice("wandb", "", /*over=*/true));
  EXPECT_THAT(Said(voice), IsEmpty());
}

TEST_F(VoiceTest, NewConnectionClearsOldTroubles) {
  Voice voice = Make();
  voice.OnMessage(Notice("store", "the disk is full"));
  EXPECT_THAT(Said(voice), ElementsAre("the disk is full"));
  EXPECT_EQ(voice.DaemonTrouble(), "the disk is full");
  voice.OnMessage(Hello());
  EXPECT_EQ(voice.DaemonTrouble(), "");
  EXPECT_THAT(Said(voice), ElementsAre(HasSubstr("run job"), "over: the disk is full"));
}

TEST_F(VoiceTest, ADaemonHasAMomentToAnswer) {
  Voice voice = Make();
  Voice::Facts alone;
  alone.unconnected = "no ranklogd is found";
  EXPECT_THAT(Said(voice, alone), IsEmpty());
  now_ += Voice::kConnectGrace - milliseconds(1);
  EXPECT_THAT(Said(voice, alone), IsEmpty());
  now_ += milliseconds(1);
  EXPECT_THAT(Said(voice, alone),
              ElementsAre(AllOf(HasSubstr("no daemon accepts rows; they stay in the spool: "),
                                HasSubstr("no ranklogd is found"))));
  EXPECT_THAT(Said(voice), ElementsAre("a daemon accepts the rows"));
  now_ += minutes(2);
  EXPECT_THAT(Said(voice, alone), IsEmpty()) << "the next one has its moment, too";
}

TEST_F(VoiceTest, ADaemonThatHangsIsSaidOnceAndThatItIsOver) {
  Voice voice = Make();
  Voice::Facts hangs;
  hangs.stalled = milliseconds(2900);
  EXPECT_THAT(Said(voice, hangs), IsEmpty());
  hangs.stalled = milliseconds(3100);
  EXPECT_THAT(Said(voice, hangs),
              ElementsAre("the daemon has accepted no rows for 3 s; they stay in the spool; "
                          "run `ranklog doctor` to find the reason"));
  now_ += minutes(2);
  hangs.stalled = minutes(2);
  EXPECT_THAT(Said(voice, hangs), IsEmpty());
  EXPECT_THAT(Said(voice), ElementsAre("the daemon accepts rows again"));

  Voice at_the_end = Make();
  Voice::Facts facts = Ended(Voice::Facts::End::kSpooled);
  facts.stalled = seconds(14);
  EXPECT_THAT(
      Said(at_the_end, facts).back(),
      HasSubstr("the rest waits in the spool for the daemon: the daemon has accepted no rows "
                "for 14 s"));

  Voice full = Make();
  full.OnMessage(Notice("store", "the disk is full"));
  EXPECT_THAT(Said(full, hangs), ElementsAre("the disk is full"));
}

TEST_F(VoiceTest, SaysRefusedRowsWithTheReason) {
  Voice voice = Make();
  Voice::Facts facts;
  facts.stats.lost_invalid = 1;
  facts.refusal = "a key is empty";
  EXPECT_THAT(Said(voice, facts), ElementsAre("1 row refused so far: a key is empty"));
  facts.stats.lost_step_behind = 8;
  facts.stats.lost_damaged = 1;
  EXPECT_THAT(Said(voice, facts), IsEmpty());
  now_ += Voice::kAgain;
  EXPECT_THAT(
      Said(voice, facts),
      ElementsAre("10 rows refused so far: a key is empty (1); a step is below the last one "
                  "of its thread (8); the spool is damaged (1)"));
}

TEST_F(VoiceTest, SaysOnceThatTheSpoolLiesElsewhere) {
  Voice voice = Make();
  Voice::Facts facts;
  facts.spool_notice = "no room; the spool is in unnamed memory";
  EXPECT_THAT(Said(voice, facts), ElementsAre(facts.spool_notice));
  EXPECT_THAT(Said(voice, facts), IsEmpty());
}

TEST_F(VoiceTest, SaysThatTheSpoolFills) {
  Voice voice = Make();
  Voice::Facts facts;
  facts.spool_used = 0.8;
  EXPECT_THAT(Said(voice, facts), ElementsAre(HasSubstr("the spool is 80 % full")));
  facts.spool_used = 0.6;
  EXPECT_THAT(Said(voice, facts), IsEmpty());
  facts.spool_used = 0.1;
  EXPECT_THAT(Said(voice, facts), ElementsAre("the spool has room again"));
}

TEST_F(VoiceTest, SaysOneLineAtTheEnd) {
  Voice well = Make();
  well.OnMessage(Hello());
  EXPECT_THAT(Said(well), SizeIs(1));
  EXPECT_TRUE(well.Look(now_, Ended(Voice::Facts::End::kDurable)));
  EXPECT_TRUE(well.Look(now_, Ended(Voice::Facts::End::kDurable)));
  EXPECT_THAT(std::exchange(lines_, {}),
              ElementsAre("run job: all 100 rows of this rank are durable"));

  Voice waits = Make();
  waits.OnMessage(Hello("wandb"));
  waits.OnMessage(Notice("wandb", "rows wait for wandb: HTTP 401"));
  EXPECT_THAT(Said(waits, Ended(Voice::Facts::End::kDurable)),
              ElementsAre(HasSubstr("goes to wandb"), HasSubstr("HTTP 401"),
                          AllOf(HasSubstr("all 100 rows of this rank are durable; rows wait for "
                                          "wandb: HTTP 401"),
                                Not(HasSubstr("sends the rest to wandb")))));

  Voice spooled = Make();
  Voice::Facts facts = Ended(Voice::Facts::End::kSpooled);
  facts.unconnected = "no ranklogd is found";
  EXPECT_THAT(Said(spooled, facts),
              ElementsAre("run job: 60 of 100 rows of this rank are durable, the rest waits in the "
                          "spool for the daemon: no ranklogd is found"));
}

TEST_F(VoiceTest, DurableRowsAreNotReportedAsWaiting) {
  Voice voice = Make();
  voice.OnMessage(Hello());
  EXPECT_THAT(Said(voice), SizeIs(1));
  Voice::Facts facts = Ended(Voice::Facts::End::kSpooled);
  facts.stats.rows_durable = facts.stats.rows_logged;
  EXPECT_THAT(Said(voice, facts), ElementsAre("run job: all 100 rows of this rank are durable"));

  Voice updates = Make();
  facts.stats.updates_pending = 1;
  EXPECT_THAT(Said(updates, facts),
              ElementsAre("run job: all 100 rows of this rank are durable, the rest waits in the "
                          "spool for the daemon"));
}

TEST_F(VoiceTest, SingularForOneRow) {
  Voice voice = Make();
  Voice::Facts facts = Ended(Voice::Facts::End::kDurable);
  facts.stats.rows_logged = facts.stats.rows_durable = 1;
  EXPECT_THAT(Said(voice, facts), ElementsAre("run job: 1 row of this rank is durable"));
}

TEST_F(VoiceTest, TheLastLineCountsRefusedRows) {
  Voice voice = Make(Job(/*rank=*/1));
  Voice::Facts facts = Ended(Voice::Facts::End::kDurable);
  facts.stats.lost_invalid = 2;
  facts.refusal = "a key is empty";
  EXPECT_THAT(Said(voice, facts),
              ElementsAre("2 rows refused so far: a key is empty",
                          "run job: all 100 rows of this rank are durable; 2 rows refused: a key "
                          "is empty"));

  Voice other = Make(Job(/*rank=*/1));
  facts.stats.lost_ring_full = 3;
  facts.spool_full = "the spool is full: the daemon has accepted no rows for 9 s";
  facts.stats.lost_after_finish = 1;
  EXPECT_THAT(Said(other, facts).back(),
              HasSubstr("; 6 rows refused: a key is empty (2); the spool is full: the "
                        "daemon has accepted no rows for 9 s (3); the run has finished (1)"));
}

TEST_F(VoiceTest, SaysHowFarTheDeliveryIs) {
  Voice voice = Make();
  voice.OnMessage(Hello("wandb"));
  EXPECT_TRUE(voice.Leaves());
  const auto told = [&](int rows, bool over) {
    return Notice("delivered", std::to_string(rows) + " of 90 rows delivered", over,
                  v1::Notice::INFO);
  };
  voice.OnMessage(Notice("url", kUrl, /*over=*/false, v1::Notice::INFO));
  voice.OnMessage(told(40, false));
  EXPECT_THAT(Said(voice), SizeIs(1)) << "while the run goes on nobody wants to know";
  Voice::Facts waits;
  waits.awaits_delivery = true;
  EXPECT_THAT(Said(voice, waits), IsEmpty());
  now_ += Voice::kDeliveryGrace;
  EXPECT_THAT(Said(voice, waits),
              ElementsAre("run job waits until the tracker has it: 40 of 90 rows delivered"));
  voice.OnMessage(told(50, false));
  EXPECT_THAT(Said(voice, waits), IsEmpty());
  now_ += Voice::kDeliveryLine;
  EXPECT_THAT(Said(voice, waits), ElementsAre(HasSubstr("50 of 90 rows delivered")));
  voice.OnMessage(Notice("wandb", "rows wait for wandb: answered 503"));
  EXPECT_THAT(Said(voice, waits), ElementsAre("rows wait for wandb: answered 503"));
  now_ += Voice::kDeliveryLine;
  EXPECT_THAT(Said(voice, waits),
              ElementsAre("run job waits until the tracker has it: 50 of 90 rows delivered; rows "
                          "wait for wandb: answered 503"));
  voice.OnMessage(Notice("wandb", "", /*over=*/true));
  EXPECT_THAT(Said(voice, waits), ElementsAre(HasSubstr("over: ")));
  now_ += Voice::kDeliveryLine;
  EXPECT_THAT(Said(voice, waits), ElementsAre(EndsWith(": 50 of 90 rows delivered")));
  EXPECT_FALSE(voice.delivered());
  voice.OnMessage(told(90, true));
  EXPECT_TRUE(voice.delivered());
  EXPECT_THAT(Said(voice, Ended(Voice::Facts::End::kDurable)),
              ElementsAre("run job: all 100 rows of this rank are durable and delivered"));

  Voice local = Make();
  local.OnMessage(Hello());
  EXPECT_FALSE(local.Leaves());
}

TEST_F(VoiceTest, TheLastLineSaysHowManyRowsAreDelivered) {
  Voice voice = Make();
  voice.OnMessage(Hello("wandb"));
  voice.OnMessage(Notice("delivered", "40 of 90 rows delivered", /*over=*/false, v1::Notice::INFO));
  EXPECT_THAT(Said(voice, Ended(Voice::Facts::End::kDurable)),
              ElementsAre(HasSubstr("goes to wandb"),
                          "run job: all 100 rows of this rank are durable, 40 of 90 rows "
                          "delivered; the daemon sends the rest to wandb"));
}

TEST_F(VoiceTest, TheFirstLineHasTheRunsOwnIdAndItsServer) {
  Settings settings = Job();
  settings.base_url = "https://wandb.example.com";
  settings.world_size = 1;
  Voice voice = Make(settings);
  v1::ServerMessage hello = Hello("wandb");
  hello.mutable_hello()->set_run_id("job-2");
  voice.OnMessage(hello);
  EXPECT_THAT(Said(voice), IsEmpty());
  now_ += Voice::kUrlGrace;
  EXPECT_THAT(Said(voice),
              ElementsAre("run job-2 (main, 1 rank) goes to wandb at "
                          "https://wandb.example.com; look at it: ranklog show job-2"));
}

TEST_F(VoiceTest, TheWorstTroubleOfTheDaemonIsTheOneThatCounts) {
  Voice voice = Make();
  voice.OnMessage(Notice("news", "a word", /*over=*/false, v1::Notice::INFO));
  EXPECT_EQ(voice.DaemonTrouble(), "");
  voice.OnMessage(Notice("store", "the disk is full", /*over=*/false, v1::Notice::ERROR));
  voice.OnMessage(Notice("wandb", "no key"));
  EXPECT_EQ(voice.DaemonTrouble(), "the disk is full");
}

TEST_F(VoiceTest, RunIdNoticePrecedesTheFirstLine) {
  Voice voice = Make();
  v1::ServerMessage hello = Hello();
  hello.mutable_hello()->set_run_id("-job-2");
  *hello.add_notices() =
      Notice("start", "run '-job' has ended", /*over=*/false, v1::Notice::INFO).notices(0);
  voice.OnMessage(hello);
  EXPECT_THAT(Said(voice),
              ElementsAre("run '-job' has ended", HasSubstr("look at it: ranklog show -- -job-2")));
  EXPECT_THAT(Said(voice), IsEmpty());
}

TEST_F(VoiceTest, SaysMistakesOnceAndNotTooMany) {
  Voice voice = Make();
  for (int i = 0; i < 100; ++i) voice.Warn("a mistake");
  EXPECT_THAT(Said(voice), SizeIs(16));
  EXPECT_THAT(Said(voice), IsEmpty());
}

TEST_F(VoiceTest, TheLastLineIsAWarningUnlessAllIsWell) {
  for (const auto end : {Voice::Facts::End::kDurable, Voice::Facts::End::kSpooled}) {
    std::vector<Severity> severities;
    Voice voice(Job(),
                [&](Severity severity, const std::string&) { severities.push_back(severity); });
    voice.Look(now_, Ended(end));
    EXPECT_THAT(severities, ElementsAre(end == Voice::Facts::End::kDurable ? Severity::kInfo
                                                                           : Severity::kWarning));
  }
}

TEST_F(VoiceTest, WithoutASinkItOnlyRemembers) {
  Voice voice(Job(), nullptr);
  voice.OnMessage(Hello());
  voice.OnMessage(Notice("store", "the disk is full"));
  voice.Look(now_, {});
  EXPECT_EQ(voice.DaemonTrouble(), "the disk is full");
}

}  // namespace
}  // namespace ranklog::internal
