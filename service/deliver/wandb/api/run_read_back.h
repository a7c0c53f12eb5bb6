// Asks for the rows, the config and the summary of a run.

#ifndef SERVICE_DELIVER_WANDB_API_RUN_READ_BACK_H_
#define SERVICE_DELIVER_WANDB_API_RUN_READ_BACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

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

#endif  // SERVICE_DELIVER_WANDB_API_RUN_READ_BACK_H_
