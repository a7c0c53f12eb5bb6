// A rank that executes commands: reads one JSON object per line from its standard input, and
// answers each with a line when it is done.
//
//   {"op": "log", "row": [["loss", 0.5], ["note", "a text"], ["x", {"number": "nan"}]], "step": 3}
//   {"op": "summary" or "config", "fields": {"lr": 0.1}}
//   {"op": "define", "name": "loss", "options": {"summary": ["min"], "goal": "minimize"}}
//   {"op": "flush", "seconds": 60}, {"op": "finish", "code": 0}, {"op": "exit", "code": 0}, {"op":
//   "crash"}
//   {"op": "fork", "as": 1}, {"op": "end_thread", "thread": 1}
//
// "thread": N in any command: this thread executes it; 0 is the main thread. The first command for
// a thread starts it. "child": N: this forked child executes it.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ranklog/ranklog.h"

namespace {

using Json = nlohmann::ordered_json;

// A thread that does one task at a time while the caller waits.
class Worker {
 public:
  ~Worker() {
    Do(nullptr);
    thread_.join();
  }
  void Do(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    busy_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !busy_; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return busy_; });
      const bool last = work_ == nullptr;
      if (!last) work_();
      busy_ = false;
      changed_.notify_all();
      if (last) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool busy_ = false;
  std::thread thread_{&Worker::Run, this};
};

struct Child {
  pid_t pid = 0;
  FILE* to = nullptr;
  FILE* from = nullptr;
};

// Returns false at the end of the file.
bool ReadLine(FILE* file, std::string* line) {
  line->clear();
  for (int c = getc(file); c != EOF; c = getc(file)) {
    if (c == '\n') return true;
    line->push_back(static_cast<char>(c));
  }
  return false;
}

void WriteLine(FILE* file, const std::string& line) {
  fprintf(file, "%s\n", line.c_str());
  fflush(file);
}

ranklog::Metric MetricOf(const Json& pair) {
  const auto& key = pair[0].get_ref<const std::string&>();
  const Json& value = pair[1];
  if (value.is_string()) return {key, value.get_ref<const std::string&>()};
  if (value.is_object()) {
    return {key, strtod(value["number"].get_ref<const std::string&>().c_str(), nullptr)};
  }
  return {key, value.get<double>()};
}

ranklog::Value ValueOf(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return {};
}

std::vector<ranklog::Value::Field> FieldsOf(const Json& object) {
  std::vector<ranklog::Value::Field> fields;
  for (const auto& [key, value] : object.items()) fields.emplace_back(key, ValueOf(value));
  return fields;
}

class Rank {
 public:
  Rank() : run_(ranklog::Init(ranklog::Settings::FromEnvironment())) {}

  // Executes commands until the end of the input.
  void Obey() {
    std::string line;
    while (ReadLine(in_, &line)) {
      const Json command = Json::parse(line);
      if (command.contains("child") && command["child"] != self_) {
        Forward(command["child"].get<int>(), line);
      } else if (command["op"] == "fork") {
        Fork(command["as"].get<int>());
      } else {
        const int thread = command.value("thread", 0);
        Json answer;
        if (command["op"] == "end_thread") {
          workers_.erase(thread);
        } else if (thread == 0) {
          answer = Answer(command);
        } else {
          std::unique_ptr<Worker>& worker = workers_[thread];
          if (worker == nullptr) worker = std::make_unique<Worker>();
          worker->Do([&] { answer = Answer(command); });
        }
        WriteLine(out_, answer.dump());
      }
    }
  }

 private:
  Json Answer(const Json& command) {
    const bool ok = Do(command);
    Json answer = {{"ok", ok}};
    if (!ok) answer["last_error"] = run_.stats().last_error;
    return answer;
  }

  bool Do(const Json& command) {
    const std::string op = command["op"];
    if (op == "log") {
      std::vector<ranklog::Metric> row;
      for (const Json& pair : command["row"]) row.push_back(MetricOf(pair));
      return command.contains("step") ? run_.Log(row, command["step"].get<int64_t>())
                                      : run_.Log(row);
    }
    if (op == "summary") return run_.Summary(FieldsOf(command["fields"]));
    if (op == "config") return run_.Config(FieldsOf(command["fields"]));
    if (op == "define") {
      const Json& given = command["options"];
      ranklog::MetricOptions options;
      options.step_metric = given.value("step_metric", "");
      options.summary = given.value("summary", std::vector<std::string>());
      options.goal = given.value("goal", "");
      return run_.DefineMetric(command["name"].get<std::string>(), options);
    }
    if (op == "flush") {
      const std::chrono::seconds patience(command["seconds"].get<int>());
      const auto deadline = std::chrono::steady_clock::now() + patience;
      if (run_.Flush(patience) != ranklog::FlushResult::kDurable) return false;
      // Without rows Flush() does not wait for the daemon. A forked child may have no ring.
      while (self_ == 0 && !run_.stats().connected) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return true;
    }
    if (op == "finish")
      return run_.Finish(command["code"].get<int>()) == ranklog::FlushResult::kDurable;
    if (op == "exit") _exit(command["code"].get<int>());
    if (op == "crash") raise(SIGKILL);
    return false;
  }

  void Fork(int as) {
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) abort();
    const pid_t pid = fork();
    if (pid == 0) {
      self_ = as;
      in_ = fdopen(down[0], "r");
      out_ = fdopen(up[1], "w");
      close(down[1]);
      close(up[0]);
      // The parent's other threads do not exist here, and its children do not answer this process.
      for (auto& [thread, worker] : workers_) static_cast<void>(worker.release());
      workers_.clear();
      for (auto& [name, child] : children_) {
        close(fileno(child.to));
        close(fileno(child.from));
      }
      children_.clear();
      Obey();
      _exit(0);
    }
    close(down[0]);
    close(up[1]);
    children_[as] = {pid, fdopen(down[1], "w"), fdopen(up[0], "r")};
    WriteLine(out_, "{}");
  }

  void Forward(int child, const std::string& line) {
    std::string answer;
    WriteLine(children_[child].to, line);
    if (!ReadLine(children_[child].from, &answer)) {
      waitpid(children_[child].pid, nullptr, 0);
      answer = R"({"gone": true})";
    }
    WriteLine(out_, answer);
  }

  ranklog::Run run_;
  FILE* in_ = stdin;
  FILE* out_ = stdout;
  int self_ = 0;
  std::map<int, std::unique_ptr<Worker>> workers_;
  std::map<int, Child> children_;
};

}  // namespace

int main() {
  signal(SIGPIPE, SIG_IGN);
  Rank rank;
  rank.Obey();
  _exit(0);
}
