// Asks what the server has of a run.

#ifndef SERVICE_DELIVER_WANDB_API_RUN_STANDING_H_
#define SERVICE_DELIVER_WANDB_API_RUN_STANDING_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::deliver::wandb {

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

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_RUN_STANDING_H_
