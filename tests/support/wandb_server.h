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

#include "tests/support/wandb_artifacts.h"

namespace ranklog::testing {

// Not thread-safe.
class WandbServer {
 public:
  struct Writer {  // of one file of a run in shared mode
    int64_t first = 0;
    std::vector<std::string> lines;
  };
  struct Run {
    std::string storage_id;
    std::string entity;
    std::string project;
    std::string run_id;
    nlohmann::json variables = nlohmann::json::object();  // of the last upsert
    std::string config;                                   // as JSON text
    int64_t existing_lines = 0;                           // lines that existed before
    size_t archived_lines = 0;  // the first of our lines: counted, but not returned to readers
    std::vector<std::string> history;          // the lines after those
    std::vector<std::string> events;           // lines of wandb-events.jsonl
    std::vector<std::string> console;          // lines of output.log; empty: never written
    std::string summary;                       // as JSON text
    std::map<std::string, std::string> files;  // bytes by name, as last uploaded
    std::set<std::string> uploaded;            // files that a post confirmed
    std::set<std::string> awaited;             // files with an upload URL, but without bytes
    std::vector<nlohmann::json> alerts;
    std::map<std::string, Writer> writers;  // by client id and file; only in shared mode
    bool stopped = false;     // a person asked the run to stop; answers to posts say so
    bool preempting = false;  // until a post after the end
    bool complete = false;
    bool silent = false;  // no heartbeat for so long that it counts as crashed; set from outside
    int32_t exit_code = 0;
    uint64_t upserts = 0;
    uint64_t heartbeats = 0;
    uint64_t repeated_lines = 0;   // of the history, written again with the same text
    uint64_t repeated_events = 0;  // the same of the events
  };
  struct Answer {
    int code = 200;
    nlohmann::json body;
  };
  struct StorageRequest {
    std::string target;                          // the path and the query, as the client sent them
    std::map<std::string, std::string> headers;  // by name in small letters
    std::string body;
  };
  struct StorageAnswer {
    int code = 200;
    std::string body;
    std::string etag;
  };

  // Upload and download URLs of files begin with `storage_url`.
  explicit WandbServer(std::string storage_url);

  Answer Graphql(const std::string& body);
  // `writer`: the client id, if the client is in shared mode.
  Answer FileStream(const std::string& entity, const std::string& project,
                    const std::string& run_id, const std::string& body,
                    const std::string& writer = "");
  // The object store behind the URLs that GraphQL() returned. Refuses requests that a real one
  // refuses: without the query or the upload headers, with W&B credentials, or in chunks.
  StorageAnswer Put(const StorageRequest& request);
  StorageAnswer Get(const std::string& target) const;
  // Forgets the part of a file that was uploaded there, if it was one.
  void LosePart(const std::string& target);

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
  const WandbArtifacts& artifacts() const { return artifacts_; }
  const std::vector<std::string>& errors() const { return errors_; }
  Run& RunOf(const std::string& run_id);  // creates it if needed

 private:
  Answer Upsert(const std::string& query, const nlohmann::json& variables);
  Answer ResumeStatus(const nlohmann::json& variables) const;
  Answer RewindRun(const nlohmann::json& variables);
  Answer Alert(const nlohmann::json& variables);
  Answer CreateRunFiles(const nlohmann::json& variables);
  Answer MarkRunFilesUploaded(const nlohmann::json& variables);
  Run* Stored(const std::string& storage_id);
  static nlohmann::json Bucket(const Run& run);
  // A URL of the object store. `kind`: "run", or a kind of WandbArtifacts.
  std::string StorageUrl(const std::string& kind, const std::string& owner,
                         const std::string& name) const;
  Answer StopRun(const nlohmann::json& variables);
  bool Refuses(const nlohmann::json& files) const;
  bool WriteHistory(Run& run, const nlohmann::json& chunk);
  bool WriteShared(Run& run, const std::string& writer, const char* file,
                   const nlohmann::json& chunk);
  bool WriteEvents(Run& run, const nlohmann::json& chunk);
  void WriteConsole(Run& run, const nlohmann::json& chunk);
  void ConfirmFiles(Run& run, const nlohmann::json& names);
  void CheckEnd(const Run& run);
  void CheckSteps(const Run& run, size_t line, bool follows);

  const std::string storage_url_;
  std::map<std::string, Run> runs_;
  WandbArtifacts artifacts_;
  std::vector<std::string> errors_;
  std::set<std::string> features_;
  std::function<bool(const std::string&)> refuses_line_;
  std::function<bool(const std::string&)> refuses_config_;
  int refusal_code_ = 400;
  uint64_t made_ = 0;
  bool several_stores_ = false;
};

// The text of member `key` of an object; empty if there is none.
std::string TextOf(const nlohmann::json& object, const std::string& key);

// Parses a line or a config. The bare words NaN, Infinity and -Infinity, which are not JSON, become
// texts.
nlohmann::json ParseExtendedJson(const std::string& text);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WANDB_SERVER_H_
