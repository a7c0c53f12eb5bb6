// Reads settings from the environment of a rank. Input: lines of NAME=VALUE.

#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/settings/environment.h"
#include "ranklog/settings.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  const absl::string_view text = fuzz::Text(data, size);
  // Not setenv(), because it never frees its copies.
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::vector<char*> variables;
  for (std::string& line : lines) variables.push_back(line.data());
  variables.push_back(nullptr);
  environ = variables.data();
  const Settings settings = Settings::FromEnvironment();
  for (const auto& number : {settings.rank, settings.world_size, settings.local_rank,
                             settings.local_world_size, settings.node_rank}) {
    MUST(!number.has_value() || *number >= 0);
  }
  for (const std::string& error : settings.environment_errors) MUST(!error.empty());
  for (const auto& list : {settings.tags, settings.destinations, settings.rank_statistics}) {
    for (const std::string& item : list) MUST(!item.empty());
  }
  const std::string key = getenv("WANDB_API_KEY") == nullptr ? "" : getenv("WANDB_API_KEY");
  if (key.size() > 60) {
    for (const std::string& error : settings.environment_errors) {
      MUST(error.find(key) == std::string::npos);
    }
  }
  const auto tasks = internal::SlurmTasksOnNode(std::string(text), 3);
  MUST(!tasks.has_value() || *tasks > 0);
  environ = nullptr;
  return 0;
}
