// Answers the requests of a W&B delivery as a W&B server would, and writes what they say to a run's
// directory, as the official client does in offline mode. README.md describes the directory.
//
// An answer means that all of it survives a power cut. A repeated request adds nothing. After an error
// the log is read again from the disk, so a part of a request that was written counts.
//
// Not thread-safe.

#ifndef SERVICE_DELIVER_OFFLINE_TRACKER_H_
#define SERVICE_DELIVER_OFFLINE_TRACKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/deliver/http/transport.h"
#include "service/deliver/offline/log_contents.h"
#include "service/wandb_log/log_file.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::deliver::offline {

class Tracker : public Transport {
 public:
  // `key`: of the run, as in RunPart. `started_us`: when its current attempt began, Unix time; called
  // by Send().
  Tracker(std::string key, std::function<int64_t()> started_us)
      : key_(std::move(key)), started_us_(std::move(started_us)) {}

  // The server's address in the URL is WANDB_DIR, an absolute path.
  //   kUnavailable  the directory cannot be read or written; the message names the path
  //   kDataLoss     as for all transports
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override;

  // Where the run is written now; empty: not known yet.
  const std::string& directory() const { return directory_; }

 private:
  using Json = nlohmann::json;

  // Each returns the whole answer, a JSON object.
  absl::StatusOr<Json> Answer(const HttpRequest& request);
  absl::StatusOr<Json> OnQuery(const std::string& operation, const Json& variables);
  absl::StatusOr<Json> OnUpsert(const Json& variables);
  absl::StatusOr<Json> OnAlert(const Json& variables);
  absl::Status OnPost(const Json& post);
  absl::Status OnPut(const HttpRequest& request);
  absl::Status AddFile(const std::string& path);

  // Defined in tracker_artifacts.cc.
  absl::StatusOr<Json> OnCreateArtifact(const Json& input);
  Json OnCreateManifest(const Json& variables);
  absl::StatusOr<Json> OnCommitArtifact(const std::string& id);
  absl::Status OnPutOfArtifact(absl::string_view url, const HttpRequest& request);

  // Each writes what differs from the log.
  absl::Status AddLines(const Json& file,
                        absl::Status (Tracker::*add)(const std::string& line, int64_t number));
  absl::Status AddHistory(const std::string& line, int64_t number);
  absl::Status AddEvent(const std::string& line, int64_t number);
  absl::Status AddConsole(const std::string& line, int64_t number);
  absl::Status AddSummary(const std::string& summary);

  // Reads the run's last log, if there is one and it is not open.
  absl::Status Load();
  absl::Status ReadLog();
  // Begins a new log if there is none, if it has the run's end, or if a person removed it.
  absl::Status Prepare();
  absl::Status BeginPart();
  absl::Status Add(wandb_internal::Record record);
  absl::Status Write(wandb_internal::Record record);
  std::string log_path() const;

  const std::string key_;
  const std::function<int64_t()> started_us_;
  std::string root_;                              // WANDB_DIR
  std::string folder_;                            // of all runs, below it
  std::string run_id_;                            // known after the first query for the run
  std::string directory_;                         // of the run's last part
  uint64_t parts_ = 0;                            // so far
  std::unique_ptr<wandb_log::LogWriter> writer_;  // null: no log is open
  LogContents contents_;

  // Artifacts that are not in the log yet, by id.
  struct PendingArtifact {
    Json input;
    Json manifest;
    std::string directory;  // of its files
    bool incremental = false;
  };
  std::map<std::string, PendingArtifact> artifacts_;
};

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_TRACKER_H_
