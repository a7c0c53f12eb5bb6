// One rank: a process with a ring for each thread that logs, and the sender's side of the protocol. In
// some seeds its later rings are those of forked children, which the daemon reads while they live.

#ifndef TESTS_SIMULATION_RANK_H_
#define TESTS_SIMULATION_RANK_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/ring/steps.h"
#include "client/stream/live_ring.h"
#include "client/stream/stream_protocol.h"
#include "tests/simulation/link.h"
#include "tests/simulation/oracle.h"
#include "tests/simulation/world.h"

namespace ranklog::simulation {

// The daemon as seen by the ranks.
struct Daemon {
  // Returns false if no daemon listens.
  std::function<bool(std::shared_ptr<Link>, RingRecord*)> connect;
  std::function<void(const v1::FinishRequest&, RingRecord*, std::function<void(absl::StatusCode)>)>
      finish;
  // Passes the ring of a forked child. Returns the number of the daemon's life; 0: none listens.
  std::function<uint64_t(const std::string& path)> pass;
  std::function<uint64_t()> life;
};

struct RankOptions {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t node = 0;
  uint32_t local_rank = 0;
  uint32_t ranks_of_node = 1;
  bool counted = true;   // the launcher provides the two fields above
  std::string launcher;  // differs between nodes that have launchers of their own
  std::string boot_id;   // empty: that of this machine
  uint32_t rings = 1;
  uint32_t children = 0;  // forked, each with a ring
  uint64_t process = 1;   // number of the process of this rank
  uint64_t began_us = 1;  // by a clock that nobody sets
  int64_t init_us = 1;    // by the wall clock
  int64_t pid = 0;
  uint64_t start = 0;          // number of the job's start at this node
  bool must_continue = false;  // the start must continue a job that exists
  bool resumed = false;        // the job was at another node before
  int64_t first_step = 0;      // used if steps are given
  v1::LogStrategy strategy = v1::LOG_STRATEGY_MAIN;
  bool explicit_steps = false;
  bool defines_last = false;  // defines metrics only in the last Configure()
  bool poison = false;        // logs some texts that the tracker refuses
  std::vector<std::string> rank_statistics;
  std::vector<std::string> rank_statistic_rules;
  int64_t equal_until = 0;  // below this step, all ranks log the same shared number
  std::string spool_dir;
  std::string content_dir;  // the daemon's
  const WallClock* wall_clock = nullptr;
};

class Rank {
 public:
  Rank(World* world, Oracle* oracle, const Daemon* daemon, RankOptions options);
  ~Rank();  // ends the process in any way; its rings stay

  void Log();
  // `last`: no row follows.
  void Configure(bool last);
  // Logs an artifact, or saves a file of the run.
  void Upload();
  void Finish(int exit_code);
  // A forked child dies, or the process of one that has called exit() ends. Returns the path of its
  // ring; empty if there is no such child.
  std::string EndChild(bool exited);
  // Does one sender tick for each ring.
  void Tick();

  bool finished() const { return finished_; }
  bool done() const;  // the daemon has all of its rows
  std::vector<std::string> Paths() const;
  bool Owns(uint64_t incarnation) const;

 private:
  struct Sender;

  v1::ContentPlace Place() const;  // without a directory: no daemon was here
  void WriteItem(Sender& sender, const v1::Item& item, LoggedItem logged);
  v1::Hello MakeHello(uint32_t thread, uint64_t incarnation, bool of_child) const;
  void AddRing(uint32_t thread, bool of_child);
  void TickChild(Sender& sender);
  void Calibrate(Sender& sender);
  LoggedRow MakeRow(Sender& sender, int64_t step);
  void Connect(Sender& sender);
  void Lost(Sender& sender, const absl::Status& status);
  void Pump(Sender& sender);

  World& world_;
  Oracle& oracle_;
  const Daemon& daemon_;
  const RankOptions options_;
  const std::unique_ptr<internal::SharedSteps> steps_;
  std::vector<std::shared_ptr<Sender>> senders_;  // shared with the answers in flight
  bool finished_ = false;
  bool gave_step_ = false;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_RANK_H_
