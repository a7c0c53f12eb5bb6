// WandbServer in this process, on its own port, with faults on demand.

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

// Thread-safe.
class FakeWandb {
 public:
  using Run = WandbServer::Run;
  struct Request {
    std::string path;
    std::string operation;  // the GraphQL operation
    std::string body;
    std::string authorization;
    std::string user_agent;
    bool gzip = false;
    int port = 0;  // the client's port, which tells its connections apart
    int code = 0;  // The code of the answer; 0: no answer yet, or a fault cut the connection
  };
  static constexpr int kCut = -1;
  // Replaces the usual answer to the next requests of a kind.
  struct Fault {
    enum class On { kAny, kGraphql, kFileStream, kStorage };  // kStorage: uploads and downloads
    On on = On::kFileStream;
    int times = 1;
    // 0: the connection breaks in the middle of the answer; kCut: before it
    int code = 500;
    bool act = false;  // process the request before the answer
    std::string retry_after = "";
    absl::Duration delay = absl::ZeroDuration();  // before the answer
    std::string body = "";                        // of the answer; empty: the usual body
    std::string operation = "";                   // only requests of this one; empty: any
  };

  // Port 0: any free port. `address` is an address of this machine.
  explicit FakeWandb(int port = 0, const std::string& address = "127.0.0.1");
  ~FakeWandb();

  std::string url() const;
  int port() const;

  void Inject(const Fault& fault);
  // From now on, every n-th request fails: with 500, 503, or a cut connection. Some of them act.
  void FailEvery(int n);
  // Allows at most `requests` in each `window`, which begins with its first request. Further
  // requests get 429, with the rest of the window as Retry-After.
  void LimitRate(int requests, absl::Duration window);
  void Enable(const std::string& feature);
  void RequireKey(const std::string& key);  // requests with other keys get 401
  // From now on, errors repeat the request's key, in clear text and in the form in which it was
  // sent.
  void EchoKeys();
  // Answers 400 to posts and summaries with a line for which `refused` returns true.
  void RefuseLines(std::function<bool(const std::string& line)> refused);
  void RefuseBodiesAbove(size_t bytes);  // with 413
  // Refuses these configs with `code`.
  void RefuseConfigs(std::function<bool(const std::string& config)> refused, int code = 400);
  void AddExistingRun(const std::string& run_id, int64_t lines);
  void ExpectSeveralStores();  // see WandbServer
  // Changes the server's data without a request.
  void Tamper(const std::string& run_id, const std::function<void(Run&)>& change);

  std::map<std::string, Run> runs() const;   // by run id
  Run run(const std::string& run_id) const;  // an empty run if there is none
  std::vector<Request> requests() const;
  std::vector<std::string> errors() const;  // violations that a strict server would report
  nlohmann::json Dump() const;

  bool WaitFor(const std::function<bool(const std::map<std::string, Run>&)>& condition,
               absl::Duration timeout);
  // Waits until the run is complete.
  bool WaitForEnd(const std::string& run_id, absl::Duration timeout = absl::Seconds(60));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FAKE_WANDB_H_
