#ifndef SERVICE_QUERY_SELECT_RUN_H_
#define SERVICE_QUERY_SELECT_RUN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/model/run.h"

namespace ranklog::query {

inline constexpr char kRunHelp[] =
    "a run's id, the start of its id, its name, or `latest`; put `project:` before it if several "
    "projects have it";

// Finds the run that a user means by `text`: an id, a name, or `latest` (the run that started
// last). Each may have the form `project:text`. With `project`, only runs of that project are
// searched. `runs` must be sorted newest first, as StoreReader::Runs() returns them.
//
// Order of precedence:
//   1. an id
//   2. a name
//   3. a job id, to which its runs append a number (strategies node and all: job-0, job-1)
//   4. the beginning of an id
//
//   kNotFound         no run matches; the message lists the runs of that name in other projects,
//                     else the newest runs
//   kInvalidArgument  several runs match, and the message lists them; or `text` is empty
absl::StatusOr<model::Run> SelectRun(const std::vector<model::Run>& runs, const std::string& text,
                                     const std::string& project);

// The argument RUN of a command in a message about these runs, given by id: the id of the only run,
// else the word RUN.
std::string RunForCommand(const std::vector<std::string>& ids);

// Whether `text` names the run by more than the beginning of its id.
bool NamesWholeRun(const model::Run& run, const std::string& text);

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_SELECT_RUN_H_
