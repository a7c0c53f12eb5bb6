#include "tests/support/fake_wandb.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <climits>
#include <list>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "service/base/clock.h"
#include "tests/support/wandb_dump.h"
#include "tests/support/wandb_public_api.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;

// cpp-httplib compresses "application/json" with Brotli, which takes a third of a test's CPU time.
// The type of a Fault's body stays "application/json", so the client also sees compressed answers.
constexpr char kJson[] = "application/json; charset=utf-8";
constexpr char kBytes[] = "application/octet-stream";

std::string OperationIn(const std::string& body) {
  const json request = json::parse(body, nullptr, /*allow_exceptions=*/false);
  const std::string named = TextOf(request, "operationName");
  return named.empty() ? OperationOf(TextOf(request, "query")) : named;
}

// A thread for each connection. httplib's own queue has eight threads, and an idle connection keeps
// one for five seconds. The SDK opens about six connections for each run.
class Threads : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> serve) override {
    threads_.remove_if([](Thread& thread) { return thread.Ended(); });
    threads_.emplace_back(std::move(serve));
  }
  void shutdown() override { threads_.clear(); }

 private:
  class Thread {
   public:
    explicit Thread(std::function<void()> serve)
        : thread_([this, serve = std::move(serve)] {
            serve();
            ended_.Notify();
          }) {}
    ~Thread() { thread_.join(); }
    bool Ended() const { return ended_.HasBeenNotified(); }

   private:
    absl::Notification ended_;
    std::thread thread_;
  };
  std::list<Thread> threads_;  // only used by the thread that accepts connections
};

struct Reply {
  int code = 200;
  std::string body = "out of order";
  const char* type = kJson;
  std::string etag = "";
};

Reply ReplyOf(const WandbServer::Answer& answer) {
  return {.code = answer.code, .body = answer.body.dump()};
}

Reply ReplyOf(const WandbServer::StorageAnswer& answer) {
  return {.code = answer.code, .body = answer.body, .type = kBytes, .etag = answer.etag};
}

WandbServer::StorageRequest StorageRequestOf(const httplib::Request& request) {
  WandbServer::StorageRequest storage = {
      .target = request.target, .headers = {}, .body = request.body};
  for (const auto& [name, value] : request.headers) {
    storage.headers[absl::AsciiStrToLower(name)] = value;
  }
  return storage;
}

// The client id, if the client is in shared mode.
std::string WriterOf(const httplib::Request& request) {
  if (request.get_header_value("X-WANDB-USE-ASYNC-FILESTREAM") != "true") return "";
  return request.get_header_value("X-WANDB-ASYNC-CLIENT-ID");
}

// Cuts the connection to a client's port. httplib does not tell its descriptor.
void Cut(int port) {
  constexpr int kDescriptors = 4096;
  for (int descriptor = 3; descriptor < kDescriptors; ++descriptor) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) {
      shutdown(descriptor, SHUT_RDWR);
    }
  }
}

// The error page of a proxy that repeats the whole request.
std::string EchoOf(const httplib::Request& request) {
  const std::string authorization = request.get_header_value("Authorization");
  std::string pair;
  absl::Base64Unescape(authorization.substr(authorization.find(' ') + 1), &pair);
  return absl::StrCat("you sent Authorization: ", authorization, ", that is ", pair);
}

}  // namespace

struct FakeWandb::State {
  httplib::Server server;
  std::thread thread;
  int port = 0;  // not above 0: there was none
  std::string url;
  absl::Notification stopping;

  mutable absl::Mutex mutex;
  std::unique_ptr<WandbServer> wandb ABSL_GUARDED_BY(mutex);  // never null
  std::vector<Request> requests ABSL_GUARDED_BY(mutex);
  std::vector<Fault> faults ABSL_GUARDED_BY(mutex);
  int fail_every ABSL_GUARDED_BY(mutex) = 0;  // 0: never
  std::string key ABSL_GUARDED_BY(mutex);
  int limit ABSL_GUARDED_BY(mutex) = INT_MAX;  // requests per window
  int left ABSL_GUARDED_BY(mutex) = INT_MAX;   // left in this window
  absl::Duration window ABSL_GUARDED_BY(mutex);
  absl::Time window_end ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  size_t max_body ABSL_GUARDED_BY(mutex) = SIZE_MAX;
  bool echo_keys ABSL_GUARDED_BY(mutex) = false;

  using Handler = std::function<Reply(WandbServer&)>;

  void Serve(const httplib::Request& request, httplib::Response& response, Fault::On kind,
             const Handler& handler);
  bool TakeFault(Fault::On kind, Fault* fault) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns nothing if the limit allows one more request, else the time until it does.
  absl::optional<absl::Duration> Limited() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool Authorized(const httplib::Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

FakeWandb::FakeWandb(int port, const std::string& address) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.server.set_keep_alive_max_count(1 << 20);
  state.server.set_tcp_nodelay(true);
  state.server.new_task_queue = [] { return new Threads; };
  state.server.Post(
      "/graphql", [&state](const httplib::Request& request, httplib::Response& response) {
        state.Serve(request, response, Fault::On::kGraphql,
                    [&](WandbServer& wandb) { return ReplyOf(wandb.Graphql(request.body)); });
      });
  state.server.Post(
      R"(/files/([^/]+)/([^/]+)/([^/]+)/file_stream)",
      [&state](const httplib::Request& request, httplib::Response& response) {
        state.Serve(request, response, Fault::On::kFileStream, [&](WandbServer& wandb) {
          return ReplyOf(wandb.FileStream(request.matches[1], request.matches[2],
                                          request.matches[3], request.body, WriterOf(request)));
        });
      });
  state.server.Put(R"(/storage/.*)",
                   [&state](const httplib::Request& request, httplib::Response& response) {
                     state.Serve(request, response, Fault::On::kStorage, [&](WandbServer& wandb) {
                       return ReplyOf(wandb.Put(StorageRequestOf(request)));
                     });
                   });
  state.server.Get(
      R"(/storage/.*)", [&state](const httplib::Request& request, httplib::Response& response) {
        state.Serve(request, response, Fault::On::kStorage,
                    [&](WandbServer& wandb) { return ReplyOf(wandb.Get(request.target)); });
      });
  state.server.Get("/dump", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(Dump().dump(2, ' ', false, json::error_handler_t::replace),
                         "application/json");
  });
  if (port == 0) {
    state.port = state.server.bind_to_any_port(address);
  } else {
    state.port = state.server.bind_to_port(address, port) ? port : -1;
  }
  state.url = absl::StrCat("http://", address, ":", state.port);
  {
    const absl::MutexLock lock(&state.mutex);
    state.wandb = std::make_unique<WandbServer>(state.url);
  }
  state.thread = std::thread([&state] { state.server.listen_after_bind(); });
  while (state.port > 0 && !state.server.is_running()) std::this_thread::yield();
}

FakeWandb::~FakeWandb() {
  state_->stopping.Notify();
  state_->server.stop();
  state_->thread.join();
}

std::string FakeWandb::url() const { return state_->url; }
int FakeWandb::port() const { return state_->port; }

void FakeWandb::Inject(const Fault& fault) {
  const absl::MutexLock lock(&state_->mutex);
  state_->faults.push_back(fault);
}
void FakeWandb::FailEvery(int n) {
  const absl::MutexLock lock(&state_->mutex);
  state_->fail_every = n;
}
void FakeWandb::LimitRate(int requests, absl::Duration window) {
  const absl::MutexLock lock(&state_->mutex);
  state_->limit = requests;
  state_->window = window;
}
void FakeWandb::Enable(const std::string& feature) {
  const absl::MutexLock lock(&state_->mutex);
  state_->wandb->Enable(feature);
}
void FakeWandb::RequireKey(const std::string& key) {
  const absl::MutexLock lock(&state_->mutex);
  state_->key = key;
}
void FakeWandb::EchoKeys() {
  const absl::MutexLock lock(&state_->mutex);
  state_->echo_keys = true;
}
void FakeWandb::RefuseLines(std::function<bool(const std::string&)> refused) {
  const absl::MutexLock lock(&state_->mutex);
  state_->wandb->RefuseLines(std::move(refused));
}
void FakeWandb::RefuseConfigs(std::function<bool(const std::string&)> refused, int code) {
  const absl::MutexLock lock(&state_->mutex);
  state_->wandb->RefuseConfigs(std::move(refused), code);
}
void FakeWandb::RefuseBodiesAbove(size_t bytes) {
  const absl::MutexLock lock(&state_->mutex);
  state_->max_body = bytes;
}
void FakeWandb::AddExistingRun(const std::string& run_id, int64_t lines) {
  const absl::MutexLock lock(&state_->mutex);
  state_->wandb->RunOf(run_id).existing_lines = lines;
}
void FakeWandb::ExpectSeveralStores() {
  const absl::MutexLock lock(&state_->mutex);
  state_->wandb->ExpectSeveralStores();
}
void FakeWandb::Tamper(const std::string& run_id, const std::function<void(Run&)>& change) {
  const absl::MutexLock lock(&state_->mutex);
  change(state_->wandb->RunOf(run_id));
}

std::map<std::string, FakeWandb::Run> FakeWandb::runs() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->wandb->runs();
}
FakeWandb::Run FakeWandb::run(const std::string& run_id) const {
  const absl::MutexLock lock(&state_->mutex);
  const auto& runs = state_->wandb->runs();
  const auto it = runs.find(run_id);
  return it == runs.end() ? Run() : it->second;
}
std::vector<FakeWandb::Request> FakeWandb::requests() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->requests;
}
std::vector<std::string> FakeWandb::errors() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->wandb->errors();
}

json FakeWandb::Dump() const {
  const absl::MutexLock lock(&state_->mutex);
  json dump = DumpOf(*state_->wandb);
  dump["requests"] = json::array();
  for (const Request& request : state_->requests) {
    dump["requests"].push_back(request.operation.empty() ? request.path : request.operation);
  }
  return dump;
}

bool FakeWandb::WaitFor(const std::function<bool(const std::map<std::string, Run>&)>& condition,
                        absl::Duration timeout) {
  struct Args {
    State* state;
    const std::function<bool(const std::map<std::string, Run>&)>* condition;
  } args = {state_.get(), &condition};
  const absl::MutexLock lock(&state_->mutex);
  const auto holds = +[](Args* a) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return (*a->condition)(a->state->wandb->runs());
  };
  return state_->mutex.AwaitWithTimeout(absl::Condition(holds, &args), timeout);
}

bool FakeWandb::WaitForEnd(const std::string& run_id, absl::Duration timeout) {
  return WaitFor(
      [&](const auto& runs) { return runs.count(run_id) != 0 && runs.at(run_id).complete; },
      timeout);
}

void FakeWandb::State::Serve(const httplib::Request& request, httplib::Response& response,
                             Fault::On kind, const Handler& handler) {
  Fault fault;
  bool faulty = false;
  bool echo = false;
  Reply reply;
  const bool storage = kind == Fault::On::kStorage;  // has no keys and no limits
  size_t index = 0;
  {
    const absl::MutexLock lock(&mutex);
    requests.push_back({.path = request.path,
                        .operation = storage ? "" : OperationIn(request.body),
                        .body = request.body,
                        .authorization = request.get_header_value("Authorization"),
                        .user_agent = request.get_header_value("User-Agent"),
                        .gzip = request.get_header_value("Content-Encoding") == "gzip",
                        .port = request.remote_port});
    index = requests.size() - 1;
    const auto limited = storage ? absl::nullopt : Limited();
    if (limited.has_value()) {
      requests[index].code = response.status = 429;
      response.set_header("Retry-After", absl::StrCat(absl::ToDoubleSeconds(*limited)));
      return;
    }
    faulty = TakeFault(kind, &fault);
    echo = echo_keys;
    if (!storage && !Authorized(request)) {
      response.status = 401;
      response.set_content(R"({"errors":[{"message":"user is not logged in"}]})",
                           "application/json");
      return;
    }
    if (!storage && request.body.size() > max_body) {
      response.status = 413;
      response.set_content("body too large", "text/plain");
      return;
    }
    if (!faulty || fault.act) {
      reply = handler(*wandb);
      requests[index].code = response.status = reply.code;
      // The server's library then sends that part.
      if (reply.code == 200 && !request.ranges.empty()) response.status = 206;
      if (!reply.etag.empty()) response.set_header("ETag", reply.etag);
    }
  }
  if (faulty) {
    stopping.WaitForNotificationWithTimeout(fault.delay);
    if (!fault.retry_after.empty()) response.set_header("Retry-After", fault.retry_after);
    if (fault.code == kCut) return Cut(request.remote_port);
    response.status = fault.code == 0 ? 200 : fault.code;
    if (fault.code == 0) {
      response.set_content_provider(1000, "application/json",
                                    [](size_t, size_t, httplib::DataSink&) { return false; });
    } else if (!fault.body.empty()) {
      response.set_content(fault.body, "application/json");
    } else if (echo && fault.code >= 400) {
      response.set_content(EchoOf(request), "text/plain");
    } else {
      response.set_content(reply.body, reply.type);
    }
    return;
  }
  if (echo && reply.code >= 400) {
    response.set_content(EchoOf(request), "text/plain");
  } else {
    response.set_content(reply.body, reply.type);
  }
}

absl::optional<absl::Duration> FakeWandb::State::Limited() {
  const absl::Time now = SteadyNow();
  if (now >= window_end) {
    window_end = now + window;
    left = limit;
  }
  if (left-- > 0) return absl::nullopt;
  return window_end - now;
}

bool FakeWandb::State::TakeFault(Fault::On kind, Fault* fault) {
  for (auto it = faults.begin(); it != faults.end(); ++it) {
    if (it->on != Fault::On::kAny && it->on != kind) continue;
    if (!it->operation.empty() && it->operation != requests.back().operation) continue;
    *fault = *it;
    if (--it->times == 0) faults.erase(it);
    return true;
  }
  if (fail_every == 0 || requests.size() % fail_every != 0) return false;
  static const auto* const kinds = new std::vector<Fault>{{.code = 500, .retry_after = "1"},
                                                          {.code = kCut},
                                                          {.code = 503, .retry_after = "1"},
                                                          {.code = kCut, .act = true}};
  *fault = (*kinds)[requests.size() / fail_every % kinds->size()];
  return true;
}

bool FakeWandb::State::Authorized(const httplib::Request& request) const {
  const std::string given = request.get_header_value("Authorization");
  if (key.empty()) return absl::StartsWith(given, "Basic ");
  return given == httplib::make_basic_authentication_header("api", key).second;
}

}  // namespace ranklog::testing
