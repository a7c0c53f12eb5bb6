// Reads settings out of environment variables.

#ifndef CLIENT_ENVIRONMENT_H_
#define CLIENT_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "ranklog/settings.h"

namespace ranklog::internal {

// The value of a variable without white space around it, such as the newline that a secret from a
// file ends with; absent if nothing is left.
std::optional<std::string> Variable(const char* name);

// Without white space at its ends.
std::string Trimmed(std::string_view text);

// The same of the first one that is set.
std::optional<std::string> FirstVariable(absl::Span<const char* const> names);

// What a delivery needs of the job beside its key, by name, each with its value or an empty text:
// proxies, RANKLOG_ALLOW_HTTP, WANDB_USERNAME, WANDB_USER_EMAIL. The daemon may be another job's.
std::map<std::string, std::string> JobVariables();

// A whole decimal number, or nothing.
std::optional<int64_t> ParseInteger(std::string_view text);

// Items between commas, without spaces around them; empty ones are left out.
std::vector<std::string> SplitList(std::string_view text);

// Who this process is, by the first launcher that says it: RANKLOG_RANK, torchrun, a Slurm step,
// Open MPI, PMI. Fills in rank, local_rank, world_size, local_world_size and node_rank, and
// environment_errors.
void ReadRanks(Settings* settings);

// The local world size of the node `node_id` in Slurm's notation of tasks per node, e.g. "2(x3),1".
std::optional<int> SlurmTasksOnNode(std::string_view tasks_per_node, int64_t node_id);

}  // namespace ranklog::internal

#endif  // CLIENT_ENVIRONMENT_H_
