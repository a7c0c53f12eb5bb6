// One node of a test's cluster: a state directory, and the real ranklogd that serves it.

#ifndef TESTS_INTEGRATION_NODE_H_
#define TESTS_INTEGRATION_NODE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "service/storage/store_reader.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

class FakeWandb;

// Starts without a daemon. Prints the daemon's log when the test fails.
class Node {
 public:
  // `launcher` is a command line that runs another one in its own process.
  explicit Node(std::vector<std::string> daemon_flags = {},
                std::map<std::string, std::string> daemon_environment = {},
                std::vector<std::string> launcher = {});
  ~Node();

  // Starts ranklogd, and waits until it accepts connections.
  void Start() { StartWith({}); }
  // The same, with more variables in its environment.
  void StartWith(const std::map<std::string, std::string>& environment);
  void Kill() { daemon_.reset(); }  // SIGKILL
  // Sends SIGTERM. Returns its exit code.
  int Terminate();
  ChildProcess& daemon() { return *daemon_; }
  // Log(): the output of all its daemons so far. LogCount(): how often it contains this text.
  std::string Log() const;
  uint64_t LogCount(const std::string& text) const;
  // Returns one of the daemon's counters from `ranklog status`; 0 while the daemon does not answer.
  uint64_t Counter(const std::string& name) const;

  std::string state_dir() const { return dir_.File("state"); }
  std::string spool_dir() const { return dir_.File("spool"); }
  std::string socket() const { return dir_.File("d.sock"); }
  std::string address() const { return "unix:" + socket(); }

  // Changes the store directly. No daemon may run.
  void EditStore(const std::string& sql) const;
  // Reads the store; fails the test if there is none.
  std::unique_ptr<storage::StoreReader> Reader() const;
  // Returns the run of this id, or one with id 0.
  model::Run GetRun(const std::string& run_id) const;
  bool RunHasEnded(const std::string& run_id) const;

  // Returns the environment of a rank of this node, as torchrun sets it. The rank prints no
  // messages.
  std::map<std::string, std::string> RankEnvironment(const std::string& job, int rank,
                                                     int local_rank, int world_size,
                                                     int local_world_size) const;
  // Starts tests/integration/logging_rank with that environment and `extra`.
  ChildProcess StartRank(const std::string& job, int rank, int local_rank, int world_size,
                         int local_world_size, std::vector<std::string> args,
                         std::map<std::string, std::string> extra = {}) const;

 private:
  const std::vector<std::string> daemon_flags_;
  const std::map<std::string, std::string> daemon_environment_;
  const std::vector<std::string> launcher_;
  TempDir dir_;
  std::unique_ptr<ChildProcess> daemon_;
};

// Kills the node's daemon five times, each time after the server got two more requests, and starts it
// again.
void KillBetweenRequests(const FakeWandb& server, Node* node);

// Returns the settings of a rank whose run goes to the W&B server at `url`.
std::map<std::string, std::string> WandbAt(const std::string& url);

// Runs ranklogd to its end, as when it cannot start, or for --help.
Finished RunRanklogd(std::vector<std::string> args);

}  // namespace ranklog::testing

#endif  // TESTS_INTEGRATION_NODE_H_
