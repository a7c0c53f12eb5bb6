// The behaviour of a W&B server, without a network. It keeps history lines by their line number. It
// is strict where the real server is silent. It records every gap, every line overwritten with
// other content, and every step that does not grow. FakeWandb puts it on a port.

#ifndef TESTS_SUPPORT_WANDB_SERVER_H_
#define TESTS_SUPPORT_WANDB_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ranklog::testing {

// Not thread-safe.
class WandbServer {
 public:
  struct Run {
    std::string storage_id;
    std::string entity;
    std::string project;
    std::string run_id;
    nlohmann::json variables = nlohmann::json::object();  // of the last upsert
    std::string config;                                   // as JSON text
    int64_t existing_lines = 0;                           // lines that existed before
    size_t archived_lines = 0;  // the first of our lines: counted, but not returned to readers
    std::vector<std::string> history;  // the lines after those
    std::vector<std::string> events;
    std::string summary;  // as JSON text
    bool complete = false;
    bool silent = false;  // no heartbeat for so long that it counts as crashed; set from outside
    int32_t exit_code = 0;
    uint64_t upserts = 0;
    uint64_t heartbeats = 0;
    uint64_t repeated_lines = 0;  // written again with the same text
    std::set<std::string> uploaded;
  };
  struct Answer {
    int code = 200;
    nlohmann::json body;
  };

  // `storage_url`: the upload address for files.
  explicit WandbServer(std::string storage_url) : storage_url_(std::move(storage_url)) {}

  Answer Graphql(const std::string& body);
  Answer FileStream(const std::string& entity, const std::string& project,
                    const std::string& run_id, const std::string& body);

  void Enable(const std::string& feature) { features_.insert(feature); }
  // Answers 400 to posts and summaries with a line for which `refused` returns true.
  void RefuseLines(std::function<bool(const std::string& line)> refused) {
    refuses_line_ = std::move(refused);
  }
  // Answers with `code`: 400, or 200 as a GraphQL server may.
  void RefuseConfigs(std::function<bool(const std::string& config)> refused, int code = 400) {
    refuses_config_ = std::move(refused);
    refusal_code_ = code;
  }

  // Several stores write to each run, one after the other. So steps may fall from one post to the
  // next.
  void ExpectSeveralStores() { several_stores_ = true; }

  const std::map<std::string, Run>& runs() const { return runs_; }
  const std::vector<std::string>& errors() const { return errors_; }
  Run& RunOf(const std::string& run_id);  // creates it if needed

 private:
  nlohmann::json CreateRunFiles(const nlohmann::json& variables) const;
  Answer Upsert(const std::string& query, const nlohmann::json& variables);
  bool Refuses(const nlohmann::json& files) const;
  bool WriteHistory(Run& run, const nlohmann::json& chunk);
  void CheckSteps(const Run& run, size_t line, bool follows);

  const std::string storage_url_;
  std::map<std::string, Run> runs_;
  std::vector<std::string> errors_;
  std::set<std::string> features_;
  std::function<bool(const std::string&)> refuses_line_;
  std::function<bool(const std::string&)> refuses_config_;
  int refusal_code_ = 400;
  uint64_t made_ = 0;
  bool several_stores_ = false;
};

// Parses a line or a config. The bare words NaN, Infinity and -Infinity, which are not JSON, become
// texts.
nlohmann::json ParseExtendedJson(const std::string& text);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WANDB_SERVER_H_
