// What `verify` and `status --check` report as a problem. Each problem here is the only one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/cli/runs/verify_report.h"
#include "service/cli/status/overview.h"

namespace ranklog::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RankProblemsTest, EachMissingRowIsAProblem) {
  query::RankCheck rank;
  rank.rows = 10;
  rank.intact = 10;
  rank.replayed = 1;
  rank.merged = 1;
  rank.losses.ring_full = 5;  // Log() returned false for these
  EXPECT_THAT(ProblemsOf(rank).texts(), IsEmpty());

  query::RankCheck missing = rank, waiting = rank, late = rank, with_store = rank;
  missing.intact = 9;
  EXPECT_THAT(ProblemsOf(missing).texts(), ElementsAre("9 of 10 rows are there"));
  waiting.waiting = 1;
  EXPECT_THAT(ProblemsOf(waiting).texts(),
              ElementsAre("1 row not yet in the run: their steps are open"));
  late.late = 2;
  EXPECT_THAT(ProblemsOf(late).texts(),
              ElementsAre("2 rows too late for the run: kept on this node only"));
  with_store.losses.with_store = 3;
  EXPECT_THAT(ProblemsOf(with_store).texts(), ElementsAre("3 rows lost with an earlier store"));
}

TEST(StatusProblemsTest, UnreadableRingsAreAProblem) {
  Overview overview;
  overview.daemon_pid = 1;
  overview.daemon.emplace();
  EXPECT_THAT(ProblemsOf(overview), IsEmpty());
  overview.daemon->counters["ingest.left_rings"] = 2;
  EXPECT_THAT(ProblemsOf(overview),
              ElementsAre("the daemon cannot read 2 rings (`ranklog doctor`)"));
}

TEST(StatusProblemsTest, RowsThatWaitForAnotherNodeAreAProblemAfterAMinute) {
  Overview overview;
  overview.daemon_pid = 1;
  overview.daemon.emplace();
  overview.daemon->peer.emplace();
  overview.runs.emplace_back().run.id = 7;
  overview.runs.back().run.run_id = "gpt";
  DaemonStatus::Peer::Link& link = overview.daemon->peer->links.emplace_back();
  link = {.run = 7, .home = "node0:20000", .error = "no route", .stuck_seconds = 59};
  EXPECT_THAT(ProblemsOf(overview), IsEmpty());
  link.stuck_seconds = 120;
  EXPECT_THAT(ProblemsOf(overview),
              ElementsAre("run gpt waits for rank 0's node at node0:20000 for 2 m 00 s: no route"));
}

TEST(PartProblemsTest, RowsThatAreNotInTheRunOfRankZeroAreAProblem) {
  query::RunReport report;
  report.run.state = model::RunState::kFinished;
  EXPECT_THAT(ProblemsOf(report).texts(), IsEmpty()) << "it is not joined";
  query::JoinedReport& joined = report.joined.emplace();
  joined = {.rows = 10, .joined = 10, .late = 0, .complete = true};
  EXPECT_THAT(ProblemsOf(report).texts(), IsEmpty());
  joined.complete = false;
  EXPECT_THAT(ProblemsOf(report).texts(),
              ElementsAre("rank 0's node has not told yet whether rows came too late"));
  joined.joined = 7;
  EXPECT_THAT(ProblemsOf(report).texts(), ElementsAre("3 rows not yet sent to rank 0's node"));
  joined.late = 3;
  joined.complete = true;
  EXPECT_THAT(
      ProblemsOf(report).texts(),
      ElementsAre("3 rows came to rank 0's node too late: stored, but in no row of its run"));
}

}  // namespace
}  // namespace ranklog::cli
