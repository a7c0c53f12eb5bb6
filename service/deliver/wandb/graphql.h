// The GraphQL operations that a run needs, as bodies and answers.

#ifndef SERVICE_DELIVER_WANDB_GRAPHQL_H_
#define SERVICE_DELIVER_WANDB_GRAPHQL_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::deliver::wandb {

// Empty texts and lists are sent as null, which changes nothing at the server.
struct Upsert {
  std::string storage_id;  // of an earlier answer
  std::string run_id;
  std::string entity;
  std::string project;
  std::string group;
  std::string display_name;
  std::string notes;
  std::string job_type;
  std::string host;
  std::string program;
  std::vector<std::string> tags;
  std::string config;  // JSON text, always the whole config
};

struct Upserted {
  std::string storage_id;
  std::string run_id;
  std::string display_name;
  std::string entity;
  std::string project;
  int64_t history_lines = 0;  // that the run has already
};

std::string UpsertBody(const Upsert& upsert);
// Of an answer with code 200.
//   kFailedPrecondition  the server names errors; they are the message, shortened
//   kInternal            not the answer of a W&B server, or beyond the bounds of bounded_json.h
absl::StatusOr<Upserted> ParseUpserted(absl::string_view body);

// Where a run stands at the server, whoever brought it there.
struct Standing {
  std::string storage_id;
  std::string run_id;
  std::string display_name;
  std::string entity;  // these two may be empty
  std::string project;
  int64_t lines = 0;
  std::string state;  // as the server calls it: running, finished, crashed, ...
  // `_timestamp` of the summary or of the last line, whichever is later, in microseconds.
  absl::optional<int64_t> newest_us{};
  int64_t last_step = -1;  // the largest `_step` of these; -1: none has one
};

std::string StandingBody(const std::string& entity, const std::string& project,
                         const std::string& run_id);
// Of an answer with code 200.
//   kNotFound            the server has no such run
//   kFailedPrecondition  the server names errors; they are the message
//   kInternal            not such an answer
absl::StatusOr<Standing> ParseStanding(absl::string_view body);

// Whose key it is. The name of the account; empty: the server does not know the key.
std::string ViewerBody();
std::string ParseViewer(absl::string_view body);

std::string FeaturesBody();
// The names of those enabled; none if the answer is no such list.
std::set<std::string> ParseFeatures(absl::string_view body);

// Asks for the history lines with a step in [min_step, max_step).
struct HistoryQuery {
  std::string entity;
  std::string project;
  std::string run_id;
  int64_t min_step = 0;
  int64_t max_step = 0;
  int64_t max_lines = 0;  // a server thins out what is more
};

struct HistoryPage {
  std::vector<std::string> lines;  // as the server wrote them anew: by value, not by byte
  int64_t line_count = 0;          // of the whole run
  std::string state;               // as the server calls it: running, finished, crashed, ...
};

std::string HistoryBody(const HistoryQuery& query);
// Of an answer with code 200.
//   kNotFound            the server has no such run, or does not show it
//   kFailedPrecondition  the server names errors; they are the message
//   kInternal            not such an answer
absl::StatusOr<HistoryPage> ParseHistory(absl::string_view body);

// What a run has beside its lines, as JSON texts.
struct RunDocuments {
  std::string config;
  std::string summary;
};

std::string DocumentsBody(const std::string& entity, const std::string& project,
                          const std::string& run_id);
// Of an answer with code 200. The same errors; what the server has none of is {}.
absl::StatusOr<RunDocuments> ParseDocuments(absl::string_view body);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_GRAPHQL_H_
