#include "tests/support/fake_wandb.h"

#include <httplib.h>

#include <cctype>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;

constexpr char kEntity[] = "fake-team";

json Parse(const std::string& text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string TextOf(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return "";
  return object[key].get<std::string>();
}

}  // namespace

struct FakeWandb::State {
  httplib::Server server;
  std::thread thread;
  int port = 0;
  absl::Notification stopping;

  mutable absl::Mutex mutex;
  std::map<std::string, Run> runs ABSL_GUARDED_BY(mutex);
  std::vector<Request> requests ABSL_GUARDED_BY(mutex);
  std::vector<std::string> errors ABSL_GUARDED_BY(mutex);
  std::vector<Fault> faults ABSL_GUARDED_BY(mutex);
  std::set<std::string> features ABSL_GUARDED_BY(mutex);
  std::string key ABSL_GUARDED_BY(mutex);
  std::function<bool(const std::string&)> refuses_line ABSL_GUARDED_BY(mutex);
  std::function<bool(const std::string&)> refuses_config ABSL_GUARDED_BY(mutex);
  size_t max_body ABSL_GUARDED_BY(mutex) = SIZE_MAX;
  uint64_t made ABSL_GUARDED_BY(mutex) = 0;

  using Handler = json (State::*)(const httplib::Request&, httplib::Response&);

  void Serve(const httplib::Request& request, httplib::Response& response, Fault::On kind,
             Handler handler);
  bool TakeFault(Fault::On kind, Fault* fault) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool Authorized(const httplib::Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  json Graphql(const httplib::Request& request, httplib::Response& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  json Upsert(const json& variables, httplib::Response& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  json CreateRunFiles(const json& variables) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  json FileStream(const httplib::Request& request, httplib::Response& response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool WriteHistory(Run& run, const json& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool Refuses(const json& files) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void CheckSteps(const Run& run, size_t line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Run& RunOf(const std::string& run_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

FakeWandb::FakeWandb(int port) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.server.set_keep_alive_max_count(1 << 20);
  state.server.set_tcp_nodelay(true);
  state.server.Post("/graphql",
                    [&state](const httplib::Request& request, httplib::Response& response) {
                      state.Serve(request, response, Fault::On::kGraphql, &State::Graphql);
                    });
  state.server.Post(R"(/files/([^/]+)/([^/]+)/([^/]+)/file_stream)",
                    [&state](const httplib::Request& request, httplib::Response& response) {
                      state.Serve(request, response, Fault::On::kFileStream, &State::FileStream);
                    });
  state.server.Put(R"(/storage/.*)", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("", "text/plain");
  });
  state.server.Get("/dump", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(Dump().dump(2, ' ', false, json::error_handler_t::replace),
                         "application/json");
  });
  if (port == 0) {
    state.port = state.server.bind_to_any_port("127.0.0.1");
  } else {
    state.port = state.server.bind_to_port("127.0.0.1", port) ? port : -1;
  }
  state.thread = std::thread([&state] { state.server.listen_after_bind(); });
  while (state.port > 0 && !state.server.is_running()) std::this_thread::yield();
}

FakeWandb::~FakeWandb() {
  state_->stopping.Notify();
  state_->server.stop();
  state_->thread.join();
}

std::string FakeWandb::url() const { return absl::StrCat("http://127.0.0.1:", state_->port); }
int FakeWandb::port() const { return state_->port; }

void FakeWandb::Inject(const Fault& fault) {
  const absl::MutexLock lock(&state_->mutex);
  state_->faults.push_back(fault);
}
void FakeWandb::Enable(const std::string& feature) {
  const absl::MutexLock lock(&state_->mutex);
  state_->features.insert(feature);
}
void FakeWandb::RequireKey(const std::string& key) {
  const absl::MutexLock lock(&state_->mutex);
  state_->key = key;
}
void FakeWandb::RefuseLines(std::function<bool(const std::string&)> refused) {
  const absl::MutexLock lock(&state_->mutex);
  state_->refuses_line = std::move(refused);
}
void FakeWandb::RefuseConfigs(std::function<bool(const std::string&)> refused) {
  const absl::MutexLock lock(&state_->mutex);
  state_->refuses_config = std::move(refused);
}
void FakeWandb::RefuseBodiesAbove(size_t bytes) {
  const absl::MutexLock lock(&state_->mutex);
  state_->max_body = bytes;
}
void FakeWandb::AddExistingRun(const std::string& run_id, int64_t lines) {
  const absl::MutexLock lock(&state_->mutex);
  state_->RunOf(run_id).existing_lines = lines;
}

std::map<std::string, FakeWandb::Run> FakeWandb::runs() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->runs;
}
FakeWandb::Run FakeWandb::run(const std::string& run_id) const {
  const absl::MutexLock lock(&state_->mutex);
  const auto it = state_->runs.find(run_id);
  return it == state_->runs.end() ? Run() : it->second;
}
std::vector<FakeWandb::Request> FakeWandb::requests() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->requests;
}
std::vector<std::string> FakeWandb::errors() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->errors;
}

json FakeWandb::Dump() const {
  const absl::MutexLock lock(&state_->mutex);
  json runs = json::object();
  for (const auto& [id, run] : state_->runs) {
    json history = json::array();
    for (const std::string& line : run.history) history.push_back(ParseExtendedJson(line));
    runs[id] = {{"entity", run.entity},
                {"project", run.project},
                {"variables", run.variables},
                {"config", ParseExtendedJson(run.config)},
                {"existing_lines", run.existing_lines},
                {"history", std::move(history)},
                {"events", run.events.size()},
                {"summary", ParseExtendedJson(run.summary)},
                {"complete", run.complete},
                {"exit_code", run.exit_code},
                {"upserts", run.upserts},
                {"heartbeats", run.heartbeats},
                {"repeated_lines", run.repeated_lines},
                {"uploaded", run.uploaded}};
  }
  json operations = json::array();
  for (const Request& request : state_->requests) {
    operations.push_back(request.operation.empty() ? request.path : request.operation);
  }
  return {
      {"runs", std::move(runs)}, {"errors", state_->errors}, {"requests", std::move(operations)}};
}

bool FakeWandb::WaitFor(const std::function<bool(const std::map<std::string, Run>&)>& condition,
                        absl::Duration timeout) {
  struct Args {
    State* state;
    const std::function<bool(const std::map<std::string, Run>&)>* condition;
  } args = {state_.get(), &condition};
  const absl::MutexLock lock(&state_->mutex);
  const auto holds =
      +[](Args* a) ABSL_NO_THREAD_SAFETY_ANALYSIS { return (*a->condition)(a->state->runs); };
  return state_->mutex.AwaitWithTimeout(absl::Condition(holds, &args), timeout);
}

void FakeWandb::State::Serve(const httplib::Request& request, httplib::Response& response,
                             Fault::On kind, Handler handler) {
  Fault fault;
  bool faulty = false;
  json answer;
  {
    const absl::MutexLock lock(&mutex);
    requests.push_back({.path = request.path,
                        .operation = TextOf(Parse(request.body), "operationName"),
                        .body = request.body,
                        .authorization = request.get_header_value("Authorization"),
                        .user_agent = request.get_header_value("User-Agent"),
                        .gzip = request.get_header_value("Content-Encoding") == "gzip",
                        .port = request.remote_port});
    faulty = TakeFault(kind, &fault);
    if (!Authorized(request)) {
      response.status = 401;
      response.set_content(R"({"errors":[{"message":"user is not logged in"}]})",
                           "application/json");
      return;
    }
    if (request.body.size() > max_body) {
      response.status = 413;
      response.set_content("body too large", "text/plain");
      return;
    }
    if (!faulty || fault.act) {
      response.status = 200;
      answer = (this->*handler)(request, response);
    }
  }
  if (faulty) {
    stopping.WaitForNotificationWithTimeout(fault.delay);
    if (!fault.retry_after.empty()) response.set_header("Retry-After", fault.retry_after);
    response.status = fault.code == 0 ? 200 : fault.code;
    if (fault.code == 0) {
      response.set_content_provider(1000, "application/json",
                                    [](size_t, size_t, httplib::DataSink&) { return false; });
    } else {
      response.set_content(answer.is_null() ? "out of order" : answer.dump(), "application/json");
    }
    return;
  }
  response.set_content(answer.dump(), "application/json");
}

bool FakeWandb::State::TakeFault(Fault::On kind, Fault* fault) {
  for (auto it = faults.begin(); it != faults.end(); ++it) {
    if (it->on != Fault::On::kAny && it->on != kind) continue;
    *fault = *it;
    if (--it->times == 0) faults.erase(it);
    return true;
  }
  return false;
}

bool FakeWandb::State::Authorized(const httplib::Request& request) const {
  const std::string given = request.get_header_value("Authorization");
  if (key.empty()) return absl::StartsWith(given, "Basic ");
  return given == httplib::make_basic_authentication_header("api", key).second;
}

FakeWandb::Run& FakeWandb::State::RunOf(const std::string& run_id) {
  Run& run = runs[run_id];
  run.run_id = run_id;
  if (run.storage_id.empty()) run.storage_id = absl::StrCat("storage-", ++made);
  return run;
}

json FakeWandb::State::Graphql(const httplib::Request& request, httplib::Response& response) {
  const json body = Parse(request.body);
  const std::string operation = TextOf(body, "operationName");
  const json variables =
      body.is_object() ? body.value("variables", json::object()) : json::object();
  if (operation == "UpsertBucket") return Upsert(variables, response);
  if (operation == "CreateRunFiles") return CreateRunFiles(variables);
  if (operation == "Viewer") {
    return {{"data",
             {{"viewer",
               {{"id", "user-1"},
                {"entity", kEntity},
                {"username", "fake"},
                {"email", "fake@example.com"},
                {"flags", "{}"},
                {"teams", {{"edges", json::array()}}}}}}}};
  }
  if (operation == "ServerFeaturesQuery") {
    json list = json::array();
    for (const std::string& name : features) list.push_back({{"name", name}, {"isEnabled", true}});
    return {{"data", {{"serverInfo", {{"features", std::move(list)}}}}}};
  }
  if (operation == "RunResumeStatus") return {{"data", {{"model", {{"bucket", nullptr}}}}}};
  response.status = 404;
  return {{"errors", {{{"message", absl::StrCat("unknown operation ", operation)}}}}};
}

json FakeWandb::State::Upsert(const json& variables, httplib::Response& response) {
  const std::string config = TextOf(variables, "config");
  if (refuses_config && refuses_config(config)) {
    response.status = 400;
    return {{"errors", {{{"message", "bad config"}}}}};
  }
  const std::string run_id = TextOf(variables, "name");
  const bool inserted = runs.count(run_id) == 0;
  Run& run = RunOf(run_id);
  run.entity = TextOf(variables, "entity").empty() ? kEntity : TextOf(variables, "entity");
  run.project = TextOf(variables, "project");
  for (const auto& [name, value] : variables.items()) {
    if (!value.is_null() || !run.variables.contains(name)) run.variables[name] = value;
  }
  if (!config.empty()) run.config = config;
  ++run.upserts;
  const int64_t lines = run.existing_lines + static_cast<int64_t>(run.history.size());
  const std::string shown = TextOf(run.variables, "displayName");
  return {{"data",
           {{"upsertBucket",
             {{"bucket",
               {{"id", run.storage_id},
                {"name", run.run_id},
                {"displayName", shown.empty() ? "quiet-fake-1" : shown},
                {"description", nullptr},
                {"config", run.config},
                {"sweepName", nullptr},
                {"historyLineCount", lines},
                {"project",
                 {{"id", "project-1"},
                  {"name", run.project},
                  {"entity", {{"id", "entity-1"}, {"name", run.entity}}}}}}},
              {"inserted", inserted}}}}}};
}

json FakeWandb::State::CreateRunFiles(const json& variables) {
  json files = json::array();
  for (const json& name : variables.value("files", json::array())) {
    const std::string path =
        absl::StrCat("/storage/", TextOf(variables, "run"), "/", name.get<std::string>());
    files.push_back({{"name", name}, {"uploadUrl", absl::StrCat("http://127.0.0.1:", port, path)}});
  }
  return {{"data",
           {{"createRunFiles",
             {{"runID", "storage-1"},
              {"uploadHeaders", json::array()},
              {"files", std::move(files)}}}}}};
}

bool FakeWandb::State::Refuses(const json& files) const {
  if (!refuses_line) return false;
  for (const auto& [name, chunk] : files.items()) {
    for (const json& line : chunk.value("content", json::array())) {
      if (refuses_line(line.get<std::string>())) return true;
    }
  }
  return false;
}

json FakeWandb::State::FileStream(const httplib::Request& request, httplib::Response& response) {
  const auto refuse = [&](const std::string& why) -> json {
    response.status = 400;
    return {{"error", why}};
  };
  const json body = Parse(request.body);
  if (!body.is_object()) {
    errors.push_back("file_stream: the body is no JSON object");
    return refuse("no JSON");
  }
  const std::string run_id = request.matches[3];
  const auto found = runs.find(run_id);
  if (found == runs.end()) {
    response.status = 404;
    return {{"error", "no such run"}};
  }
  Run& run = found->second;
  if (request.matches[1] != run.entity || request.matches[2] != run.project) {
    errors.push_back(
        absl::StrCat(run_id, ": posted under another entity or project: ", request.path));
  }
  if (run.complete && body.empty())
    errors.push_back(absl::StrCat(run_id, ": a heartbeat after the end"));
  const json files = body.value("files", json::object());
  if (Refuses(files)) return refuse("a line is not valid");
  if (files.contains("wandb-history.jsonl") && !WriteHistory(run, files["wandb-history.jsonl"])) {
    return refuse("a gap");
  }
  if (files.contains("wandb-events.jsonl")) {
    for (const json& line : files["wandb-events.jsonl"]["content"]) run.events.push_back(line);
  }
  if (files.contains("wandb-summary.json"))
    run.summary = files["wandb-summary.json"]["content"].back();
  for (const json& name : body.value("uploaded", json::array()))
    run.uploaded.insert(name.get<std::string>());
  if (body.empty()) ++run.heartbeats;
  run.complete = body.value("complete", false);
  if (run.complete) run.exit_code = body.value("exitcode", -1);
  return {{"exitcode", nullptr}, {"limits", json::object()}};
}

bool FakeWandb::State::WriteHistory(Run& run, const json& chunk) {
  const int64_t offset = chunk.value("offset", int64_t{-1}) - run.existing_lines;
  if (offset < 0 || offset > static_cast<int64_t>(run.history.size())) {
    errors.push_back(absl::StrCat(run.run_id, ": a post at line ", offset + run.existing_lines,
                                  " where ", run.existing_lines, " to ",
                                  run.existing_lines + run.history.size(), " fit"));
    return false;
  }
  size_t at = static_cast<size_t>(offset);
  for (const json& content : chunk["content"]) {
    const std::string line = content.get<std::string>();
    if (at == run.history.size()) {
      run.history.push_back(line);
    } else if (run.history[at] == line) {
      ++run.repeated_lines;
    } else {
      errors.push_back(
          absl::StrCat(run.run_id, ": line ", at, " was ", run.history[at], " and became ", line));
      run.history[at] = line;
    }
    CheckSteps(run, at++);
  }
  return true;
}

void FakeWandb::State::CheckSteps(const Run& run, size_t line) {
  const json row = ParseExtendedJson(run.history[line]);
  if (!row.is_object() || !row.contains("_step") || !row["_step"].is_number_integer()) {
    errors.push_back(
        absl::StrCat(run.run_id, ": line ", line, " has no whole _step: ", run.history[line]));
    return;
  }
  if (line == 0) return;
  const json before = ParseExtendedJson(run.history[line - 1]);
  if (before.is_object() && before.contains("_step") && before["_step"] >= row["_step"]) {
    errors.push_back(absl::StrCat(run.run_id, ": the _step of line ", line, " does not grow"));
  }
}

json ParseExtendedJson(const std::string& text) {
  std::string strict;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      strict += c;
      strict += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    if (!in_string && (c == 'N' || c == 'I' || (c == '-' && text[i + 1] == 'I'))) {
      strict += '"';
      do strict += text[i++];
      while (i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])));
      strict += '"';
      --i;
      continue;
    }
    strict += c;
  }
  return Parse(strict);
}

}  // namespace ranklog::testing
