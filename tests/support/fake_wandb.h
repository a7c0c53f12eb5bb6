// WandbServer in this process, on a loopback port of its own, with faults on demand.

#ifndef TESTS_SUPPORT_FAKE_WANDB_H_
#define TESTS_SUPPORT_FAKE_WANDB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/support/wandb_server.h"

namespace ranklog::testing {

// Everything may be called from any thread.
class FakeWandb {
 public:
  using Run = WandbServer::Run;
  struct Request {
    std::string path;
    std::string operation;  // of GraphQL
    std::string body;
    std::string authorization;
    std::string user_agent;
    bool gzip = false;
    int port = 0;  // of the client: tells its connections apart
    int code = 0;  // that was answered; 0: not yet, or a fault cut the connection
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
    std::string body = "";                        // of the answer; empty: as usual
  };

  explicit FakeWandb(int port = 0);  // 0: a free one
  ~FakeWandb();

  std::string url() const;
  int port() const;

  void Inject(const Fault& fault);
  // At most `requests` in each `window`, which begins with its first request; those above get 429,
  // and by Retry-After how long the window still lasts.
  void LimitRate(int requests, absl::Duration window);
  void Enable(const std::string& feature);
  void RequireKey(const std::string& key);  // others get 401
  // From now on errors repeat the key that came with the request, in the clear and as it was sent.
  void EchoKeys();
  // Posts with a line for which `refused` says true get 400. Also summaries.
  void RefuseLines(std::function<bool(const std::string& line)> refused);
  void RefuseBodiesAbove(size_t bytes);  // 413
  // By errors that come with this code.
  void RefuseConfigs(std::function<bool(const std::string& config)> refused, int code = 400);
  void AddExistingRun(const std::string& run_id, int64_t lines);
  void ExpectSeveralStores();  // see WandbServer
  // Changes what the server keeps behind everybody's back.
  void Tamper(const std::string& run_id, const std::function<void(Run&)>& change);

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

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FAKE_WANDB_H_
