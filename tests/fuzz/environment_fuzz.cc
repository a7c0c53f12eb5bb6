// The environment of a rank. Input: lines of NAME=VALUE.

#include <stdlib.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/environment.h"
#include "ranklog/settings.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  clearenv();
  const absl::string_view text = fuzz::Text(data, size);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> sides = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (sides.size() == 2 && !sides[0].empty()) setenv(sides[0].c_str(), sides[1].c_str(), 1);
  }
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
  internal::SlurmTasksOnNode(std::string(text), 3);
  return 0;
}
