// The tracker and the network to it, with faults: refused requests, lost or partial answers, no
// answer at all.

#ifndef TESTS_SIMULATION_TRACKER_H_
#define TESTS_SIMULATION_TRACKER_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "service/deliver/http/transport.h"
#include "tests/simulation/world.h"
#include "tests/support/wandb_server.h"

namespace ranklog::simulation {

class Tracker {
 public:
  struct Options {
    double fault = 0.2;          // probability for each request
    size_t max_body = SIZE_MAX;  // of a post
    bool poison = false;         // lines with the word "poison" get 400
    bool several_stores = false;
    // A request that ends a run takes time. The waiting daemon must not be stopped meanwhile.
    bool slow_end = false;
  };
  Tracker(World* world, Options options);

  // Returns a transport for one worker of a node's daemon. It fails while `works` returns false.
  std::unique_ptr<deliver::Transport> Connect(uint32_t node, std::function<bool()> works);
  // A daemon that restarted, or could not store its state, may forget a Retry-After.
  void ForgetWaits(uint32_t node) { not_before_.erase(node); }

  // The node is gone, so the requests that it abandoned never take effect.
  void Forget(uint32_t node) { ++forgotten_[node]; }

  // The values of a run that a late request has overwritten since they were last set. A request
  // that the client abandoned may take effect after later ones. For values that replace earlier
  // ones, nobody can prevent that. A late request cannot change lines, because each line has its
  // position.
  struct SetBack {
    bool config = false;
    bool summary = false;
    bool end = false;
    std::set<std::string> files;  // of the run
  };
  SetBack set_back(const std::string& run_id) const;

  int64_t LastStep() const;  // over the last lines of all runs

  const testing::WandbServer& server() const { return server_; }
  const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  friend class TrackerTransport;
  absl::StatusOr<deliver::HttpResponse> Post(uint32_t node, const deliver::HttpRequest& request);
  // An upload to the store of files.
  absl::StatusOr<deliver::HttpResponse> Put(const deliver::HttpRequest& request);
  deliver::HttpResponse Act(const deliver::HttpRequest& request, uint64_t number);
  void ActLate(const deliver::HttpRequest& request, uint64_t number);
  // `stream_run`: the run of the file stream; empty: GraphQL.
  void NoteEffect(const std::string& stream_run, const std::string& text, uint64_t number);

  World& world_;
  const Options options_;
  testing::WandbServer server_;
  std::map<uint32_t, absl::Time> not_before_;  // by node: Retry-After of a 429, for all its runs
  std::map<uint32_t, int> forgotten_;          // by node: number of calls
  std::map<std::string, absl::Time> last_request_;  // by run id
  uint64_t requests_ = 0;
  struct Effects {  // number of the last request that set each value
    uint64_t newest_config = 0, newest_summary = 0, newest_end = 0;
    SetBack set_back;
    std::map<std::string, uint64_t> newest_files;
  };
  std::map<std::string, Effects> effects_;  // by run id
  // Refused uploads. The delivery sets an upload apart after four in a row.
  int refusals_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_TRACKER_H_
