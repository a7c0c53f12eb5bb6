// What W&B's server would receive, as records of a `.wandb` log.

#ifndef SERVICE_DELIVER_OFFLINE_RECORDS_H_
#define SERVICE_DELIVER_OFFLINE_RECORDS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::deliver::offline {

// A line of wandb-history.jsonl.
wandb_internal::HistoryRecord HistoryOf(absl::string_view line);
// A line of wandb-events.jsonl.
wandb_internal::StatsRecord StatsOf(absl::string_view line);

// A structured line of output.log.
struct ConsoleEntry {
  bool error = false;
  std::string text;
  google::protobuf::Timestamp time;
};
ConsoleEntry ConsoleOf(absl::string_view line);

// The list of definitions in a config: `_wandb.m`. The step metrics that the list has only for its
// references are left out.
std::vector<wandb_internal::MetricRecord> MetricsOf(const nlohmann::json& list);
// The facts of a program and its node, the JSON of wandb-metadata.json. Facts that W&B's record does
// not have are left out.
wandb_internal::EnvironmentRecord EnvironmentOf(absl::string_view metadata);
// The entity in answers about a run that has none: only the server knows the user's own. It is no
// name of an entity.
inline constexpr char kUnknownEntity[] = "-";
// The variables of an UpsertBucket, without the config. Empty: no change.
wandb_internal::RunRecord RunOf(const nlohmann::json& variables);
// The variables of CreateArtifact, and the manifest. Files lie at `directory` under FileNameOf().
wandb_internal::ArtifactRecord ArtifactOf(const nlohmann::json& input,
                                          const nlohmann::json& manifest,
                                          const std::string& directory);
// The name of an artifact's file with this path, in its directory.
std::string FileNameOf(absl::string_view path);

google::protobuf::Timestamp TimestampOf(int64_t unix_us);

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_RECORDS_H_
