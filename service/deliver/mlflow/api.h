// Requests and answers of MLflow's REST API, version 2.0.

#ifndef SERVICE_DELIVER_MLFLOW_API_H_
#define SERVICE_DELIVER_MLFLOW_API_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/deliver/http/transport.h"
#include "service/model/run.h"

namespace ranklog::deliver::mlflow {

// Limits of a log-batch request.
inline constexpr size_t kMaxMetrics = 1000;
inline constexpr size_t kMaxParams = 100;
inline constexpr size_t kMaxTags = 100;
inline constexpr size_t kMaxRunName = 250;        // characters; most databases refuse more
inline constexpr size_t kMaxBodyBytes = 900'000;  // documented: 1 MB
// Of values, in characters. The server cuts longer ones without a word.
inline constexpr size_t kMaxParamValue = 6000;
inline constexpr size_t kMaxTagValue = 8000;

using ServerJson = nlohmann::json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

// `path` such as "runs/create"; with its query.
HttpRequest Get(absl::string_view server, absl::string_view path);
HttpRequest Post(absl::string_view server, absl::string_view path, std::string body);

// Bodies. A server that cannot read a member ignores all that follow, so those that it needs come
// last.
std::string PairsBody(absl::string_view run_id, absl::string_view kind, const Pairs& pairs);
std::string CreateRunBody(absl::string_view experiment_id, absl::string_view name,
                          absl::string_view user, int64_t start_ms, const Pairs& tags);
// `end_ms` 0: unchanged.
std::string UpdateRunBody(absl::string_view run_id, absl::string_view status, int64_t end_ms);
// Which runs a search finds.
struct RunFilter {
  std::string tag;
  std::string value;     // of that tag; without quotes
  std::string status{};  // empty: any
};
// A page of the runs, newest first; with `last`, only the one that ended last. `token`: of the
// page; empty for the first.
std::string SearchBody(absl::string_view experiment_id, const RunFilter& filter,
                       absl::string_view token, bool last = false);

// Of an answer that is not accepted. The code is empty if the answer is not the server's own: a
// proxy's, or a page.
std::string ErrorCode(const HttpResponse& answer);
bool IsError(const absl::StatusOr<HttpResponse>& answer, absl::string_view code);
// Whether a metric of the request is there already.
bool IsDuplicate(const absl::StatusOr<HttpResponse>& answer);

// What an accepted answer says. kUnavailable: something else answered.
absl::StatusOr<ServerJson> ParseObject(const HttpResponse& answer);

struct Experiment {
  std::string id;
  bool deleted = false;
};
absl::StatusOr<Experiment> ParseExperiment(const HttpResponse& answer);

struct ServerRun {
  std::string run_id;
  std::string experiment_id;
  std::string status;
  std::string artifact_uri;
  bool deleted = false;
  int64_t start_ms = 0;
  int64_t end_ms = 0;
  int64_t last_step = -1;  // the largest of its metrics, but those of the system
  std::map<std::string, std::string> params;
  std::map<std::string, std::string> tags;

  std::string Tag(const std::string& key) const {
    const auto found = tags.find(key);
    return found == tags.end() ? "" : found->second;
  }
};
absl::StatusOr<ServerRun> ParseRun(const HttpResponse& answer);
struct RunPage {
  std::vector<ServerRun> runs;
  std::string next;  // token of the next page; empty: there is none
};
absl::StatusOr<RunPage> ParseRuns(const HttpResponse& answer);

// RUNNING, FINISHED, FAILED or KILLED.
absl::string_view StatusOf(model::RunState state);

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_API_H_
