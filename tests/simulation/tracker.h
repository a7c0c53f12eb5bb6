// The backend and the way to it: refuses, is busy, acts and is not heard, answers half, or never.

#ifndef TESTS_SIMULATION_TRACKER_H_
#define TESTS_SIMULATION_TRACKER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/deliver/transport.h"
#include "tests/simulation/world.h"
#include "tests/support/wandb_server.h"

namespace ranklog::simulation {

class Tracker {
 public:
  struct Options {
    double fault = 0.2;  // of a request
    size_t max_body = SIZE_MAX;
    bool poison = false;  // lines with this word get 400
    bool several_stores = false;
    // A request with a run's end takes time; the daemon that waits must not be ended in it.
    bool slow_end = false;
  };
  Tracker(World* world, Options options);

  // A way there, for one worker of a node's daemon; nothing passes while `works` is false.
  std::unique_ptr<deliver::Transport> Connect(uint32_t node, std::function<bool()> works);
  // A daemon that was restarted, or could not store what it knew, need not remember what it was
  // asked to wait for.
  void ForgetWaits(uint32_t node) { not_before_.erase(node); }

  // The node is gone: what it was asking for and no longer waits for is gone with it.
  void Forget(uint32_t node) { ++forgotten_[node]; }

  // What of a run a late request has set back since it was last set: a request that was given up
  // may take effect after those that were made later. Nobody can prevent that where a value
  // replaces the one before; lines have their place, and a late one changes none.
  struct SetBack {
    bool config = false;
    bool summary = false;
    bool end = false;
  };
  SetBack set_back(const std::string& run_id) const;

  int64_t LastStep() const;  // of the runs' last lines

  const testing::WandbServer& server() const { return server_; }
  const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  friend class TrackerTransport;
  absl::StatusOr<deliver::HttpResponse> Post(uint32_t node, const deliver::HttpRequest& request);
  deliver::HttpResponse Act(const deliver::HttpRequest& request, uint64_t number);
  void ActLate(const deliver::HttpRequest& request, uint64_t number);
  // `stream_run`: whose file stream it is; empty: GraphQL.
  void NoteEffect(const std::string& stream_run, const std::string& text, uint64_t number);

  World& world_;
  const Options options_;
  testing::WandbServer server_;
  std::map<uint32_t, absl::Time> not_before_;  // by node: what a 429 asked for, of all its runs
  std::map<uint32_t, int> forgotten_;          // by node: how often
  std::map<std::string, absl::Time> heard_;    // by run id
  uint64_t requests_ = 0;
  struct Effects {  // the number of the last request that set it
    uint64_t newest_config = 0, newest_summary = 0, newest_end = 0;
    SetBack set_back;
  };
  std::map<std::string, Effects> effects_;  // by run id
  std::vector<std::string> wrong_;
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_TRACKER_H_
