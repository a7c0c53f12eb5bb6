// Reads settings from environment variables.

#ifndef CLIENT_SETTINGS_ENVIRONMENT_H_
#define CLIENT_SETTINGS_ENVIRONMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "ranklog/settings.h"

namespace ranklog::internal {

// The value of a variable, without white space around it, such as the newline at the end of a
// secret's file. Absent if nothing is left.
std::optional<std::string> Variable(const char* name);

// `text` without white space at both ends.
std::string Trimmed(std::string_view text);

// The value of the first variable that is set, as Variable() returns it. Skips null names.
std::optional<std::string> FirstVariable(absl::Span<const char* const> names);

// The variables of this job that its deliveries need besides those of the destinations: proxies, CA
// certificates, RANKLOG_ALLOW_HTTP. Unset variables are included with an empty value, because the
// daemon may have been started by another job.
std::map<std::string, std::string> JobVariables();

// A whole decimal number, or nullopt.
std::optional<int64_t> ParseInteger(std::string_view text);

// The items between commas, without spaces around them. Empty items are left out.
std::vector<std::string> SplitList(std::string_view text);

// The settings of this process's environment. Never fails: what cannot be read is in
// environment_errors.
Settings SettingsFromEnvironment();

// Reads the rank of this process from the first launcher that sets it: RANKLOG_RANK, torchrun, a
// Slurm step, Open MPI, PMI. Sets rank, local_rank, world_size, local_world_size and node_rank, and
// adds to environment_errors.
void ReadRanks(Settings* settings);

// The local world size of node `node_id`, from Slurm's list of tasks per node, such as "2(x3),1".
std::optional<int> SlurmTasksOnNode(std::string_view tasks_per_node, int64_t node_id);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_ENVIRONMENT_H_
