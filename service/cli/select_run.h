#ifndef SERVICE_CLI_SELECT_RUN_H_
#define SERVICE_CLI_SELECT_RUN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/model/run.h"

namespace ranklog::cli {

inline constexpr char kRunHelp[] =
    "a run's id, its beginning or the name, or `latest`; with `project:` before it where projects "
    "share it";

// Finds the run that a person means by `text`: an id, a name, or `latest` (the one that started
// last), each also as `project:text`. An id goes before a name; then comes what jobs are called
// whose runs have a number behind it (strategies node and all: job-0, job-1), then the beginning of
// an id. With `project`, only
// that project's runs are looked at. `runs` are newest first, as StoreReader::Runs() gives them.
//   kNotFound            no run is called that; the message lists the newest ones
//   kInvalidArgument     several are; the message lists them. Or the text is empty
absl::StatusOr<model::Run> SelectRun(const std::vector<model::Run>& runs, const std::string& text,
                                     const std::string& project);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_SELECT_RUN_H_
