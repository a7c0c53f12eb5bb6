// The GraphQL operations for a run: request bodies and parsed answers.

#ifndef SERVICE_DELIVER_WANDB_API_GRAPHQL_H_
#define SERVICE_DELIVER_WANDB_API_GRAPHQL_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "service/model/item.h"
#include "service/model/session.h"

namespace ranklog::deliver::wandb {

// The body of a request.
std::string GraphqlBody(const char* query, const char* operation, model::Json variables);
// Null for an empty text.
model::Json OrNull(const std::string& text);
// The member `field` of the data in an answer with code 200.
//   kFailedPrecondition  the server reports errors; the message contains them, shortened
//   kInternal            there is no such member
absl::StatusOr<nlohmann::json> ParseGraphql(absl::string_view body, const char* field);
// A member of nested objects; null, or "", if it does not exist.
nlohmann::json At(const nlohmann::json& object, std::initializer_list<const char*> path);
std::string TextAt(const nlohmann::json& object, std::initializer_list<const char*> path);
// The headers in a list of "NAME:VALUE".
std::vector<std::pair<std::string, std::string>> HeadersIn(const nlohmann::json& object,
                                                           std::initializer_list<const char*> path);

// An update of a run. Empty texts and lists are sent as null, which changes nothing at the server.
struct Upsert {
  std::string storage_id{};  // from an earlier answer
  std::string run_id{};
  std::string entity{};
  std::string project{};
  std::string config{};  // JSON text, always the whole config
  std::string display_name{};
  std::string group{};
  std::string job_type{};
  std::string notes{};
  std::string host{};
  std::string program{};
  std::string commit{};  // of the program's source, and its repository
  std::string repo{};
  std::vector<std::string> tags{};

  // Calls visit(name, text) with each text that describes the run; `tags` are joined to one.
  void VisitTexts(absl::FunctionRef<void(const char* name, std::string* text)> visit);
};

struct Upserted {
  std::string storage_id;
  std::string run_id;
  std::string display_name;
  std::string entity;
  std::string project;
  int64_t history_lines = 0;  // lines that the run already has
};

std::string UpsertBody(const Upsert& upsert);
// Parses an answer with code 200.
//   kFailedPrecondition  the server reports errors; the message contains them, shortened
//   kInternal            not the answer of a W&B server, or beyond the limits of bounded_json.h
absl::StatusOr<Upserted> ParseUpserted(absl::string_view body);

// The state of a run at the server, regardless of which store sent its rows.
struct ServerRunState {
  std::string storage_id;
  std::string run_id;
  std::string display_name;
  std::string entity;  // this and `project` may be empty
  std::string project;
  bool started = false;  // a program has begun it
  int64_t lines = 0;     // of the history
  int64_t events = 0;    // lines of system metrics
  int64_t console = 0;   // lines of output.log
  // `_timestamp` of the summary or of the last line, whichever is later, in microseconds.
  absl::optional<int64_t> newest_us{};
  int64_t last_step = -1;  // the larger `_step` of these two; -1: neither has one
  // How long the run has run, by its lines and its summary.
  int64_t runtime_us = 0;
  nlohmann::json config{};  // as ParseServerJson() gives it; each value is wrapped
  nlohmann::json summary{};
  bool has_notes = false;
  bool has_tags = false;
};

// The query with which the official client resumes a run.
std::string StandingBody(const std::string& entity, const std::string& project,
                         const std::string& run_id);
// Parses an answer with code 200.
//   kNotFound            the server has no such run
//   kFailedPrecondition  the server reports errors; the message contains them
//   kInternal            not the answer to this query, or one without the number of lines of a run
//                        that has begun: our lines could overwrite others
absl::StatusOr<ServerRunState> ParseStanding(absl::string_view body);

// Asks for the state of a run that exists. ParseState() returns the server's name for it: running,
// finished, crashed, ...; its errors are those of ParseStanding().
std::string StateBody(const std::string& entity, const std::string& project,
                      const std::string& run_id);
absl::StatusOr<std::string> ParseState(absl::string_view body);

// Asks where to upload files of the run.
struct UploadUrls {
  std::vector<std::pair<std::string, std::string>> headers;  // of each upload
  std::map<std::string, std::string> urls;                   // by name; absent: it is not accepted
};
std::string RunFilesBody(const std::string& entity, const std::string& project,
                         const std::string& run_id, const std::vector<std::string>& names);
// Parses an answer with code 200. Errors as in ParseHistory(), without kNotFound.
absl::StatusOr<UploadUrls> ParseRunFiles(absl::string_view body);

// Sends an alert to the people who watch the run. `level`: INFO, WARN or ERROR.
struct AlertRequest {
  std::string entity{};
  std::string project{};
  std::string run_id{};
  std::string title{};
  std::string text{};
  std::string level{};
  int64_t wait_ms = 0;  // the server drops another alert with this title within this time
};
std::string AlertBody(const AlertRequest& alert);
// Parses an answer with code 200.
//   kFailedPrecondition  the server has not sent the alert; the message has its reasons
absl::Status ParseAlert(absl::string_view body);

// Asks for the account of the key. ParseViewer() returns its name; empty: the server does not know
// the key.
std::string ViewerBody();
std::string ParseViewer(absl::string_view body);

std::string FeaturesBody();
// The names of the enabled features; empty if the answer has no such list.
std::set<std::string> ParseFeatures(absl::string_view body);

// Asks for the history lines with a step in [min_step, max_step).
struct HistoryQuery {
  std::string entity;
  std::string project;
  std::string run_id;
  int64_t min_step = 0;
  int64_t max_step = 0;
  int64_t max_lines = 0;  // a server returns only a sample of more lines
};

struct HistoryPage {
  std::vector<std::string> lines;  // rewritten by the server: same values, other bytes
  int64_t line_count = 0;          // of the whole run
  std::string state;               // the server's name for it: running, finished, crashed, ...
};

std::string HistoryBody(const HistoryQuery& query);
// Parses an answer with code 200.
//   kNotFound            the server has no such run, or does not show it
//   kFailedPrecondition  the server reports errors; the message contains them
//   kInternal            not the answer to this query
absl::StatusOr<HistoryPage> ParseHistory(absl::string_view body);

// The config and the summary of a run, as JSON text.
struct RunDocuments {
  std::string config;
  std::string summary;
};

std::string DocumentsBody(const std::string& entity, const std::string& project,
                          const std::string& run_id);
// Parses an answer with code 200. Errors as in ParseHistory(). A document that the server does not
// have is {}.
absl::StatusOr<RunDocuments> ParseDocuments(absl::string_view body);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_GRAPHQL_H_
