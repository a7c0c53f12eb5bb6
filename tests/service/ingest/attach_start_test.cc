// Which job a start gets: the attacher over a real store. S10, S41.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/ingest/attach.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AttachStartTest : public ::testing::Test {
 protected:
  AttachStartTest() {
    auto store = storage::Store::Open(dir_.path(), {});
    EXPECT_OK(store);
    store_ = *std::move(store);
    auto reader = storage::StoreReader::Open(dir_.path());
    EXPECT_OK(reader);
    reader_ = reader->get();
    attacher_ = std::make_unique<Attacher>(*std::move(reader));
  }

  // A new process of `rank`, started by `launch`. Each has a ring.
  model::Session SessionOf(uint32_t rank, const std::string& launch) {
    model::Session session;
    session.stream = {"gpt", "job", rank, ++incarnation_};
    session.settings.destinations = {"wandb"};
    session.identity.world_size = 2;
    session.identity.local_rank = rank;
    session.identity.local_world_size = 2;
    session.identity.node = "node";
    session.identity.pid = 100;
    session.launch.id = launch;
    session.launch.given_id = "job";
    session.launch.id_given = true;
    session.launch.whole_node = true;
    session.launch.process = absl::StrCat("process-", incarnation_, "@0");
    return session;
  }
  model::Stream Attach(const model::Session& session) {
    model::Stream stream;
    EXPECT_OK(store_->Begin());
    auto attached = attacher_->Attach(session, *store_);
    EXPECT_OK(attached);
    EXPECT_OK(store_->Commit());
    last_ = *attached;
    live_.push_back(attached->id);
    return last_;
  }
  // Returns the id of the job that the session got.
  std::string JobOf(const model::Session& session) { return Attach(session).job_id; }
  void EndAll(model::StreamState how = model::StreamState::kFinished) {
    EXPECT_OK(store_->Begin());
    for (const int64_t id : live_) EXPECT_OK(store_->EndStream(id, how, 0, "", ++now_));
    EXPECT_OK(store_->Commit());
    live_.clear();
  }

  testing::TempDir dir_;
  std::unique_ptr<storage::Store> store_;
  storage::StoreReader* reader_ = nullptr;
  std::unique_ptr<Attacher> attacher_;
  uint64_t incarnation_ = 0;
  int64_t now_ = 1'000'000;
  model::Stream last_;
  std::vector<int64_t> live_;
};

TEST_F(AttachStartTest, RelaunchOfEndedJobIsNumbered) {
  EXPECT_EQ(JobOf(SessionOf(0, "one")), "job");
  EXPECT_EQ(JobOf(SessionOf(1, "one")), "job");
  EXPECT_THAT(last_.notice, IsEmpty());
  EndAll();
  EXPECT_EQ(JobOf(SessionOf(1, "two")), "job-2");
  EXPECT_THAT(last_.notice, HasSubstr("this start is 'job-2'"));
  EXPECT_EQ(last_.key.job_id, "job") << "as the rank calls it";
  EXPECT_EQ(JobOf(SessionOf(0, "two")), "job-2");
  EXPECT_EQ(last_.run_id, "job-2");
  EndAll();
  EXPECT_EQ(JobOf(SessionOf(0, "three")), "job-3");
}

TEST_F(AttachStartTest, DerivedIdGivesNoNotice) {
  model::Session first = SessionOf(0, "one");
  first.launch.id_given = false;
  model::Session second = SessionOf(0, "two");
  second.launch.id_given = false;
  second.settings.resume = "allow";
  EXPECT_EQ(JobOf(first), "job");
  EndAll();
  EXPECT_EQ(JobOf(second), "job-2");
  EXPECT_THAT(last_.notice, IsEmpty());
}

// Each rank is in its own container, so the launches of one start differ.
class UnseenLauncherTest : public AttachStartTest {
 protected:
  model::Session Unseen(uint32_t rank, int64_t began_s) {
    model::Session session = SessionOf(rank, absl::StrCat("container-", incarnation_));
    session.launch.whole_node = false;
    session.launch.unseen = true;
    session.identity.boot_id = "boot";
    session.identity.began_us = began_s * 1'000'000;
    session.settings.start_time_us = 1'000 - began_s;  // the wall clock is set back all the time
    return session;
  }
};

TEST_F(UnseenLauncherTest, OnlyMissingRankJoinsEndedJob) {
  EXPECT_EQ(JobOf(Unseen(0, 100)), "job");
  EndAll();
  EXPECT_EQ(JobOf(Unseen(1, 101)), "job");
  EXPECT_EQ(last_.attempt, 1u);
  EXPECT_EQ(last_.run_id, "job") << "its rows join those of rank 0";
  EXPECT_THAT(last_.notice, HasSubstr("rank 1 joins run 'job'"));
  EXPECT_FALSE(last_.warns);
  EndAll();
  EXPECT_EQ(JobOf(Unseen(1, 102)), "job-2");
  EXPECT_THAT(last_.notice, HasSubstr("this start is 'job-2'"));
  EXPECT_EQ(JobOf(Unseen(0, 103)), "job-2");
  EXPECT_THAT(last_.notice, IsEmpty()) << "the other one lives";
}

TEST_F(UnseenLauncherTest, AmbiguousStartsAreNotMixed) {
  struct Case {
    const char* what;
    int64_t began_s;
    uint32_t world_size;
    bool seen;
    model::StreamState former;
  };
  const Case cases[] = {
      {"a minute later", 161, 2, false, model::StreamState::kFinished},
      {"in another world", 101, 3, false, model::StreamState::kFinished},
      {"with a launcher", 101, 2, true, model::StreamState::kFinished},
      {"after a crash", 101, 2, false, model::StreamState::kCrashed},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    const auto of_case = [&](model::Session session) {
      session.stream.job_id = session.launch.given_id = each.what;
      return session;
    };
    EXPECT_EQ(JobOf(of_case(Unseen(0, 100))), each.what);
    EndAll(each.former);
    model::Session next = of_case(Unseen(1, each.began_s));
    next.identity.world_size = each.world_size;
    next.launch.unseen = !each.seen;
    EXPECT_EQ(JobOf(next), absl::StrCat(each.what, "-2"));
    EndAll();
  }
}

// The start is resumed: the same rank begins the next attempt. A rank that comes before it belongs
// to that attempt too.
TEST_F(UnseenLauncherTest, ResumedStartIsAnotherAttempt) {
  const auto resumed = [this](uint32_t rank, int64_t began_s) {
    model::Session session = Unseen(rank, began_s);
    session.settings.resume = "allow";
    return Attach(session).attempt;
  };
  EXPECT_EQ(resumed(0, 100), 1u);
  EXPECT_EQ(resumed(1, 101), 1u);
  EndAll();
  EXPECT_EQ(resumed(1, 102), 2u);
  EXPECT_EQ(resumed(0, 103), 2u);
  EndAll();
  EXPECT_EQ(resumed(2, 300), 3u) << "a minute later";
}

// The process was killed before it attached. Its ring is found after the next start has begun.
TEST_F(AttachStartTest, LateRingJoinsItsOwnLaunch) {
  const model::Session late = SessionOf(1, "one");
  EXPECT_EQ(JobOf(SessionOf(0, "one")), "job");
  EndAll();
  EXPECT_EQ(JobOf(SessionOf(0, "two")), "job-2");
  EXPECT_EQ(JobOf(late), "job");
}

// The same for the ring of a dead process whose rank was restarted by its launcher, or resumed.
TEST_F(AttachStartTest, RestartedRanksLateRingKeepsJob) {
  for (const char* resume : {"", "allow"}) {
    const bool elastic = std::string(resume).empty();
    model::Session dead = SessionOf(0, "one");
    model::Session next = SessionOf(0, elastic ? "one" : "two");
    for (model::Session* session : {&dead, &next}) {
      session->stream.job_id = session->launch.given_id = elastic ? "elastic" : "resumed";
      session->settings.resume = resume;
      session->launch.restarts_ranks = elastic;
    }
    dead.left = true;
    EXPECT_EQ(JobOf(next), next.stream.job_id);
    EXPECT_EQ(JobOf(dead), next.stream.job_id);
  }
}

TEST_F(AttachStartTest, ProcessRingsKeepTheirJob) {
  const model::Session first = SessionOf(0, "one");
  EXPECT_EQ(JobOf(first), "job");
  model::Session thread = SessionOf(0, "one");
  thread.launch.process = first.launch.process;
  EXPECT_EQ(JobOf(thread), "job");
  EndAll(model::StreamState::kCrashed);
  EXPECT_EQ(JobOf(SessionOf(0, "two")), "job-2");
  EXPECT_EQ(JobOf(first), "job");
}

TEST_F(AttachStartTest, LauncherRestartContinuesTheRun) {
  model::Session session = SessionOf(0, "one");
  session.launch.restarts_ranks = true;
  EXPECT_EQ(JobOf(session), "job");
  EndAll();  // rank 0 had finished when another rank failed
  session = SessionOf(0, "one");
  session.launch.restarts_ranks = true;
  session.launch.restart = 1;
  EXPECT_EQ(JobOf(session), "job");
  // a node joined, which torchrun does not count as a restart
  EndAll(model::StreamState::kCrashed);
  session.stream.incarnation = ++incarnation_;
  session.launch.process = "another@0";
  EXPECT_EQ(JobOf(session), "job");
  EXPECT_THAT(last_.notice, IsEmpty());
}

// A shell has started the same command twice.
TEST_F(AttachStartTest, RepeatedRankBeginsNewStart) {
  EXPECT_EQ(JobOf(SessionOf(0, "shell")), "job");
  EXPECT_EQ(JobOf(SessionOf(1, "shell")), "job");
  EndAll(model::StreamState::kCrashed);
  EXPECT_EQ(JobOf(SessionOf(1, "shell")), "job-2");
  EXPECT_EQ(JobOf(SessionOf(0, "shell")), "job-2");
}

TEST_F(AttachStartTest, ResumeContinuesUnlessRankLives) {
  EXPECT_EQ(JobOf(SessionOf(0, "one")), "job");
  for (const char* resume : {"allow", "auto", "must"}) {
    model::Session next = SessionOf(0, absl::StrCat("alive ", resume));
    next.settings.resume = resume;
    EXPECT_NE(JobOf(next), "job") << resume;
    EXPECT_THAT(last_.notice, HasSubstr("has rank 0 already (pid 100)")) << resume;
  }
  EndAll();
  for (const char* resume : {"allow", "auto", "must"}) {
    model::Session next = SessionOf(0, absl::StrCat("ended ", resume));
    next.settings.resume = resume;
    EXPECT_EQ(JobOf(next), "job") << resume;
    EXPECT_THAT(last_.notice, IsEmpty()) << resume;
    EndAll();
  }
}

TEST_F(AttachStartTest, RefusedStartStaysLocal) {
  EXPECT_EQ(JobOf(SessionOf(0, "one")), "job");
  EndAll();
  model::Session never = SessionOf(1, "two");
  never.settings.resume = "never";
  EXPECT_EQ(JobOf(never), "job-2");
  EXPECT_THAT(last_.notice, HasSubstr("resume=never, but run 'job' exists"));
  never = SessionOf(0, "two");
  never.settings.resume = "never";
  EXPECT_EQ(JobOf(never), "job-2") << "the ranks of a launch agree";
  model::Session must = SessionOf(0, "three");
  must.stream.job_id = must.launch.given_id = "nowhere";
  must.settings.resume = "must";
  must.settings.destinations = {"local"};
  EXPECT_EQ(JobOf(must), "nowhere-2");
  EXPECT_THAT(last_.notice, HasSubstr("resume=must, but run 'nowhere' does not exist"));
  ASSERT_OK_AND_ASSIGN(const std::vector<model::Run> runs, reader_->Runs());
  for (const model::Run& run : runs) {
    ASSERT_OK_AND_ASSIGN(const auto deliveries, reader_->Deliveries(run.id));
    for (const model::Delivery& delivery : deliveries) {
      EXPECT_EQ(delivery.kind, run.run_id == "job" ? "wandb" : "local") << run.run_id;
    }
    EXPECT_EQ(run.refused, run.run_id != "job");
  }
  EndAll();
  EXPECT_EQ(JobOf(SessionOf(0, "four")), "job-3") << "job is the one that ended";
}

// One daemon serves several containers, each with its own launcher.
TEST_F(AttachStartTest, NodeLaunchesFormOneStart) {
  for (const char* job : {"job", "job-2"}) {
    for (uint32_t node = 0; node < 2; ++node) {
      model::Session session = SessionOf(node, absl::StrCat("agent ", node, " of ", job));
      session.identity.node_rank = node;
      EXPECT_EQ(JobOf(session), job) << node;
    }
    if (std::string(job) == "job") EndAll();
  }
  // While that runs, somebody starts the command again.
  EXPECT_EQ(JobOf(SessionOf(0, "a third")), "job-3");
}

TEST_F(AttachStartTest, NumberedIdStaysWithinTheLimit) {
  const std::string id(128, 'x');
  for (const std::string& expected : {id, model::WithNumber(id, 2), model::WithNumber(id, 3)}) {
    EXPECT_EQ(expected.size(), 128u);
    model::Session session = SessionOf(0, expected);
    session.stream.job_id = session.launch.given_id = id;
    EXPECT_EQ(JobOf(session), expected);
    EndAll();
  }
}

// Also for a continued job: its runs are found again.
TEST_F(AttachStartTest, RankRunIdsFitTrackerLimit) {
  std::map<std::string, std::string> runs;  // job and rank by run id
  for (const std::string end : {"a", "b"}) {
    const std::string id = std::string(127, 'x') + end;
    for (const std::string launch : {"one", "two"}) {
      for (const uint32_t rank : {0u, 7u, 10u}) {
        model::Session session = SessionOf(rank, launch);
        session.stream.job_id = session.launch.given_id = id;
        session.settings.strategy = model::LogStrategy::kAll;
        session.settings.resume = "allow";
        session.identity.world_size = session.identity.local_world_size = 16;
        const std::string run_id = Attach(session).run_id;
        EXPECT_EQ(run_id.size(), 128u) << run_id;
        const std::string of = absl::StrCat(end, " ", rank);
        EXPECT_EQ(runs.try_emplace(run_id, of).first->second, of) << run_id;
      }
      EndAll();
    }
  }
  EXPECT_EQ(runs.size(), 6u);
}

class RequeuedTest : public AttachStartTest {
 protected:
  std::string JobOfStep(uint32_t rank, const std::string& step, uint32_t requeue) {
    model::Session session = SessionOf(rank, absl::StrCat("slurm-7.", step, "/", requeue));
    session.launch.batch_job = "slurm-7." + step;
    session.launch.requeue = requeue;
    return JobOf(session);
  }
};

TEST_F(RequeuedTest, AllRanksContinueTheirJob) {
  EXPECT_EQ(JobOf(SessionOf(0, "one")), "job");
  EndAll();
  for (uint32_t requeue = 0; requeue < 3; ++requeue) {
    for (const uint32_t rank : {1u, 0u}) EXPECT_EQ(JobOfStep(rank, "0", requeue), "job-2");
    EndAll(model::StreamState::kCrashed);
  }
}

TEST_F(RequeuedTest, EachStepContinuesItsOwnJob) {
  EXPECT_EQ(JobOfStep(0, "0", 0), "job");
  EndAll();
  EXPECT_EQ(JobOfStep(0, "1", 0), "job-2");
  EndAll(model::StreamState::kCrashed);
  EXPECT_EQ(JobOfStep(0, "0", 1), "job");
  EndAll();
  EXPECT_EQ(JobOfStep(0, "1", 1), "job-2");
  EndAll();
  EXPECT_EQ(JobOfStep(0, "2", 1), "job-3") << "it was not there before";
}

// As with `srun -n1 sh -c "train; finetune"`.
TEST_F(RequeuedTest, StepProgramsContinueInOrder) {
  for (const uint32_t requeue : {0u, 1u, 2u}) {
    for (const std::string expected : {"job", "job-2"}) {
      model::Session session = SessionOf(0, absl::StrCat(expected, "/", requeue));
      session.launch.batch_job = "slurm-7.0";
      session.launch.requeue = requeue;
      EXPECT_EQ(JobOf(session), expected) << requeue;
      EndAll();
    }
  }
}

// The job began at another node.
TEST_F(RequeuedTest, UnknownBatchJobKeepsItsId) {
  EXPECT_EQ(JobOf(SessionOf(0, "one")), "job");
  EndAll();
  EXPECT_EQ(JobOfStep(0, "0", 1), "job");
}

// Starts of several jobs and strategies whose ids collide: {job}-{rank} and {job}-2.
class RunIdTest : public AttachStartTest {
 protected:
  // Returns the ids of the runs that the ranks get. All have ended afterwards.
  std::vector<std::string> RunsOf(const std::string& given_id, model::LogStrategy strategy,
                                  const std::string& resume = "", uint32_t ranks = 3) {
    std::vector<std::string> ids;
    const std::string launch = absl::StrCat("launch ", ++launches_);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      model::Session session = SessionOf(rank, launch);
      session.stream.job_id = session.launch.given_id = given_id;
      session.identity.world_size = session.identity.local_world_size = ranks;
      session.settings.strategy = strategy;
      session.settings.resume = resume;
      ids.push_back(Attach(session).run_id);
    }
    EndAll();
    return ids;
  }
  void ExpectNoTwoWithOneId() {
    ASSERT_OK_AND_ASSIGN(const std::vector<model::Run> runs, reader_->Runs());
    std::set<std::string> ids;
    for (const model::Run& run : runs) {
      EXPECT_TRUE(run.local_only || ids.insert(run.run_id).second) << run.run_id;
    }
  }

  static constexpr auto kMain = model::LogStrategy::kMain;
  static constexpr auto kNode = model::LogStrategy::kNode;
  static constexpr auto kAll = model::LogStrategy::kAll;
  int launches_ = 0;
};

TEST_F(RunIdTest, StartAvoidsEarlierRankIds) {
  EXPECT_THAT(RunsOf("job", kAll), ElementsAre("job-0", "job-1", "job-2"));
  EXPECT_THAT(RunsOf("job", kMain), Each("job-3"));
  EXPECT_THAT(last_.notice, HasSubstr("this start is 'job-3'"));
  EXPECT_THAT(RunsOf("job", kAll), ElementsAre("job-2-0", "job-2-1", "job-2-2"));
}

TEST_F(RunIdTest, RankAvoidsEarlierStartIds) {
  EXPECT_THAT(RunsOf("job", kMain), Each("job"));
  EXPECT_THAT(RunsOf("job", kMain), Each("job-2"));
  for (int i = 0; i < 2; ++i) {  // it keeps its number
    EXPECT_THAT(RunsOf("job", kAll, "allow"), ElementsAre("job-0", "job-1", "job-2-2"));
    EXPECT_EQ(last_.notice, "another run has the id 'job-2': this one is 'job-2-2'");
    EXPECT_TRUE(last_.warns);
  }
  EXPECT_EQ(reader_->GetRun(last_.run)->notice, last_.notice);
  EXPECT_THAT(RunsOf("job-2", kMain, "allow"), Each("job-2"));
}

TEST_F(RunIdTest, UserIdAvoidsRankIds) {
  RunsOf("job", kAll);
  for (const char* resume : {"", "allow"}) {
    EXPECT_THAT(RunsOf("job-2", kMain, resume), Each("job-2-2")) << resume;
    EXPECT_EQ(last_.job_id, "job-2");
    EXPECT_EQ(last_.notice, "another run has the id 'job-2': this one is 'job-2-2'");
  }
  EXPECT_THAT(RunsOf("job-2", kMain), Each("job-2-3"));
  EXPECT_THAT(RunsOf("job", kAll, "allow"), ElementsAre("job-0", "job-1", "job-2"));
}

TEST_F(RunIdTest, NamesEqualToIdFollowIt) {
  int launch = 0;
  const auto run_of = [&](const std::string& id, model::LogStrategy strategy,
                          const std::string& name, const std::string& group) {
    model::Session session = SessionOf(0, absl::StrCat("launch of ", ++launch));
    session.stream.job_id = session.launch.given_id = id;
    session.settings.strategy = strategy;
    session.settings.name = name;
    session.settings.group = group;
    const model::Stream stream = Attach(session);
    EndAll();
    return *reader_->GetRun(stream.run);
  };
  for (const model::LogStrategy strategy : {kMain, kNode, kAll}) {
    const std::string id(model::Name(strategy));
    const bool is_main = strategy == kMain;
    model::Run run = run_of(id, strategy, id, id);
    EXPECT_EQ(run.name, is_main ? id : "rank-0");
    EXPECT_EQ(run.settings.group, id);
    run = run_of(id, strategy, id, id);
    EXPECT_EQ(run.run_id, is_main ? "main-2" : id + "-2-0");
    EXPECT_EQ(run.name, is_main ? "main-2" : "rank-0");
    EXPECT_EQ(run.settings.group, id + "-2");
    run = run_of(id, strategy, "baseline", "sweep");
    EXPECT_EQ(run.name, is_main ? "baseline" : "rank-0");
    EXPECT_EQ(run.settings.group, "sweep");
  }
}

TEST_F(RunIdTest, NoTwoRunsHaveOneId) {
  for (const char* resume : {"", "allow"}) {
    for (const model::LogStrategy first : {kMain, kNode, kAll}) {
      for (const model::LogStrategy second : {kMain, kNode, kAll}) {
        for (const char* id : {"job", "job-2", "job-0", "job-2-2", "job"}) {
          RunsOf(id, first, resume, 2);
          RunsOf(id, second, resume, 3);
        }
      }
    }
  }
  ExpectNoTwoWithOneId();
}

// A local part may have the same id as a start. It may not once it is to go to a tracker.
TEST_F(RunIdTest, ALocalPartTakesNoId) {
  const auto attach = [this](const std::string& launch, model::LogStrategy strategy,
                             const std::string& resume) {
    model::Session session = SessionOf(2, launch);
    session.identity.world_size = 4;
    session.identity.local_rank = 0;
    session.settings.strategy = strategy;
    session.settings.resume = resume;
    const model::Stream stream = Attach(session);
    EndAll();
    return stream.run_id;
  };
  EXPECT_EQ(attach("one", kMain, ""), "job-2");
  EXPECT_THAT(RunsOf("job", kMain), Each("job-2"));
  EXPECT_EQ(attach("two", kAll, "allow"), "job-2-2");
  EXPECT_EQ(attach("three", kAll, "allow"), "job-2-2");
  ExpectNoTwoWithOneId();
}

TEST_F(AttachStartTest, RankOfAnOldClientContinues) {
  EXPECT_EQ(JobOf(SessionOf(0, "one")), "job");
  EndAll();
  model::Session earlier = SessionOf(0, "");
  earlier.launch = {};
  EXPECT_EQ(JobOf(earlier), "job");
}

// One launcher starts all nodes, and a rank of an earlier start is late.
TEST_F(AttachStartTest, PeerOfFormerLaunchDoesNotFollowTheFirst) {
  const model::Stream home = Attach(SessionOf(0, "second"));
  const auto attach_peer = [&](uint32_t rank, const std::string& launch) {
    model::Session session = SessionOf(rank, launch);
    session.identity.node = session.peer = absl::StrCat("node", rank);
    session.identity.node_rank = rank;
    EXPECT_OK(store_->Begin());
    const auto attached = attacher_->AttachPeer(session, *store_);
    EXPECT_OK(store_->Commit());
    return attached;
  };
  const auto first = attach_peer(1, "second");
  ASSERT_OK(first);
  EXPECT_EQ(first->run, home.run);
  EXPECT_THAT(attach_peer(2, "first"), testing::StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(attach_peer(2, "second"));
}

// The process that reads a console.
TEST_F(AttachStartTest, ProcessWithoutRowsHasPassedAllSteps) {
  model::Session session = SessionOf(0, "a");
  session.no_rows = true;
  const model::Stream console = Attach(session);
  const model::Stream rank = Attach(SessionOf(1, "a"));
  ASSERT_OK_AND_ASSIGN(const auto streams, reader_->Streams(rank.run));
  ASSERT_EQ(streams.size(), 2u);
  for (const model::Stream& stream : streams) {
    EXPECT_EQ(stream.passed_step, stream.id == console.id ? model::Stream::kAllSteps : -1);
  }
}

}  // namespace
}  // namespace ranklog::ingest
