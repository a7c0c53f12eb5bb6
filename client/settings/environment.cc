#include "client/settings/environment.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/base/text/keys.h"
#include "ranklog/v1/environment.h"

namespace ranklog::internal {
namespace {

// The variables of one launcher; null if it has no such variable.
struct Launcher {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
  const char* node_rank;
};

constexpr Launcher kRanklog = {"RANKLOG_RANK", "RANKLOG_WORLD_SIZE", "RANKLOG_LOCAL_RANK",
                               "RANKLOG_LOCAL_WORLD_SIZE", "RANKLOG_NODE_RANK"};
constexpr Launcher kTorchrun = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                "GROUP_RANK"};
constexpr Launcher kSlurm = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
                             "SLURM_NODEID"};
constexpr Launcher kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr};
constexpr Launcher kPmi = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr};

std::optional<int> ReadInt(const char* name, Settings* settings) {
  if (name == nullptr) return std::nullopt;
  const std::optional<std::string> text = Variable(name);
  if (!text) return std::nullopt;
  const std::optional<int64_t> value = ParseInteger(*text);
  if (!value || *value < 0 || *value > std::numeric_limits<int>::max()) {
    settings->environment_errors.push_back(
        absl::StrCat(name, "=", *text, " is not a non-negative integer"));
    return std::nullopt;
  }
  return static_cast<int>(*value);
}

// Completes the errors after the first `before` by what replaces the values.
void AddReplacement(size_t before, const std::string& replacement, Settings* settings) {
  std::vector<std::string>& errors = settings->environment_errors;
  for (size_t i = before; i < errors.size(); ++i) errors[i] += "; " + replacement;
}

// False: this launcher did not start us.
bool ReadLauncher(const Launcher& launcher, Settings* settings) {
  const bool has_rank = Variable(launcher.rank).has_value();
  const bool has_world = Variable(launcher.world_size).has_value();
  if (!has_rank && !has_world) return false;
  const size_t before = settings->environment_errors.size();
  if (has_rank != has_world) {
    const char* const given = has_rank ? launcher.rank : launcher.world_size;
    ReadInt(given, settings);
    settings->environment_errors.push_back(
        absl::StrCat(given, " is set but ", has_rank ? launcher.world_size : launcher.rank,
                     " is not; set both or none"));
    AddReplacement(before, "this process counts as rank 0 of 1", settings);
    return true;
  }
  settings->rank = ReadInt(launcher.rank, settings);
  settings->world_size = ReadInt(launcher.world_size, settings);
  if (!settings->rank || !settings->world_size) {
    // As in Repair(), the rank keeps its number if it has one.
    const int rank = std::min(settings->rank.value_or(0), std::numeric_limits<int>::max() - 1);
    settings->rank = rank;
    settings->world_size = rank + 1;
    AddReplacement(before, absl::StrCat("this process counts as rank ", rank, " of ", rank + 1),
                   settings);
    return true;
  }
  settings->local_rank = ReadInt(launcher.local_rank, settings);
  settings->local_world_size = ReadInt(launcher.local_world_size, settings);
  settings->node_rank = ReadInt(launcher.node_rank, settings);
  AddReplacement(before, "it counts as unset", settings);
  return true;
}

}  // namespace

std::optional<std::string> Variable(const char* name) {
  std::string value = v1::EnvironmentVariable(name);
  if (value.empty()) return std::nullopt;
  return value;
}

std::string Trimmed(std::string_view text) {
  const absl::string_view trimmed =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  return std::string(trimmed.data(), trimmed.size());
}

std::optional<std::string> FirstVariable(absl::Span<const char* const> names) {
  for (const char* name : names) {
    if (name == nullptr) continue;
    if (std::optional<std::string> value = Variable(name)) return value;
  }
  return std::nullopt;
}

std::map<std::string, std::string> JobVariables() {
  constexpr size_t kMaxBytes = 4096;  // per variable; one message holds all of them
  std::map<std::string, std::string> variables;
  for (const char* name :
       {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy",
        "NO_PROXY", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "RANKLOG_ALLOW_HTTP"}) {
    std::string value = Variable(name).value_or("");
    if (value.size() > kMaxBytes || !IsUtf8(value)) value.clear();
    variables[name] = std::move(value);
  }
  return variables;
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> items;
  for (absl::string_view item : absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    item = absl::StripAsciiWhitespace(item);
    if (!item.empty()) items.emplace_back(item.data(), item.size());
  }
  return items;
}

std::optional<int> SlurmTasksOnNode(std::string_view tasks_per_node, int64_t node_id) {
  for (const std::string& item : SplitList(tasks_per_node)) {
    const size_t paren = item.find("(x");
    const std::optional<int64_t> tasks = ParseInteger(item.substr(0, paren));
    std::optional<int64_t> nodes = 1;
    if (paren != std::string::npos) {
      nodes = ParseInteger(item.substr(paren + 2, item.size() - paren - 3));
    }
    if (!tasks || !nodes || *nodes < 1) return std::nullopt;
    if (*tasks < 1 || *tasks > std::numeric_limits<int>::max()) return std::nullopt;
    if (node_id < *nodes) return static_cast<int>(*tasks);
    node_id -= *nodes;
  }
  return std::nullopt;
}

void ReadRanks(Settings* settings) {
  if (ReadLauncher(kRanklog, settings)) return;
  for (const char* name : {kRanklog.local_rank, kRanklog.local_world_size, kRanklog.node_rank}) {
    if (!Variable(name)) continue;
    settings->environment_errors.push_back(absl::StrCat(
        name, " is set but ", kRanklog.rank, " and ", kRanklog.world_size, " are not; ignored"));
  }
  if (ReadLauncher(kTorchrun, settings)) return;
  // A batch script and salloc's shell also have Slurm's rank variables, but are not ranks.
  if (Variable("SLURM_STEP_ID") && ReadLauncher(kSlurm, settings)) {
    const std::optional<std::string> tasks = Variable("SLURM_STEP_TASKS_PER_NODE");
    if (tasks && settings->node_rank) {
      settings->local_world_size = SlurmTasksOnNode(*tasks, *settings->node_rank);
    }
    return;
  }
  if (ReadLauncher(kOpenMpi, settings)) return;
  ReadLauncher(kPmi, settings);
}

}  // namespace ranklog::internal
