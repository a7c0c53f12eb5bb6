// A W&B server in this process, on a loopback port of its own. It keeps history lines by their line
// number, and is strict where the real one is silent: it notes every gap, every line that is
// written over with something else, every step that does not grow.

#ifndef TESTS_SUPPORT_FAKE_WANDB_H_
#define TESTS_SUPPORT_FAKE_WANDB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ranklog::testing {

// Everything may be called from any thread.
class FakeWandb {
 public:
  struct Run {
    std::string storage_id;
    std::string entity;
    std::string project;
    std::string run_id;
    nlohmann::json variables;          // of the last upsert
    std::string config;                // as JSON text
    int64_t existing_lines = 0;        // lines that were there before
    std::vector<std::string> history;  // the lines after those
    std::vector<std::string> events;
    std::string summary;  // as JSON text
    bool complete = false;
    int32_t exit_code = 0;
    uint64_t upserts = 0;
    uint64_t heartbeats = 0;
    uint64_t repeated_lines = 0;  // written again with the same text
    std::set<std::string> uploaded;
  };
  struct Request {
    std::string path;
    std::string operation;  // of GraphQL
    std::string body;
    std::string authorization;
    std::string user_agent;
    bool gzip = false;
    int port = 0;  // of the client: tells its connections apart
  };
  // What happens to the next requests of a kind instead of the usual answer.
  struct Fault {
    enum class On { kAny, kGraphql, kFileStream };
    On on = On::kFileStream;
    int times = 1;
    int code = 500;    // 0: the connection breaks in the middle of the answer
    bool act = false;  // do what was asked, then answer so
    std::string retry_after = "";
    absl::Duration delay = absl::ZeroDuration();  // before the answer
  };

  explicit FakeWandb(int port = 0);  // 0: a free one
  ~FakeWandb();

  std::string url() const;
  int port() const;

  void Inject(const Fault& fault);
  void Enable(const std::string& feature);
  void RequireKey(const std::string& key);  // others get 401
  // Posts with a line for which `refused` says true get 400. Also summaries.
  void RefuseLines(std::function<bool(const std::string& line)> refused);
  void RefuseBodiesAbove(size_t bytes);                                        // 413
  void RefuseConfigs(std::function<bool(const std::string& config)> refused);  // 400
  void AddExistingRun(const std::string& run_id, int64_t lines);

  std::map<std::string, Run> runs() const;   // by run id
  Run run(const std::string& run_id) const;  // an empty one if there is none
  std::vector<Request> requests() const;
  std::vector<std::string> errors() const;  // what a strict server would object to
  nlohmann::json Dump() const;

  bool WaitFor(const std::function<bool(const std::map<std::string, Run>&)>& condition,
               absl::Duration timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A line or a config as a value: the bare words NaN, Infinity and -Infinity, which are no JSON,
// become texts.
nlohmann::json ParseExtendedJson(const std::string& text);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FAKE_WANDB_H_
