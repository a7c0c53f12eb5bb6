// What describes a run, and its changes as records.

#ifndef SERVICE_DELIVER_OFFLINE_DESCRIPTION_H_
#define SERVICE_DELIVER_OFFLINE_DESCRIPTION_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/deliver/offline/log_contents.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::deliver::offline {

// The records that `contents` lacks, after an UpsertBucket with these variables: run, config,
// metrics, environment.
std::vector<wandb_internal::Record> DescriptionChanges(const nlohmann::json& variables,
                                                       const LogContents& contents);
// The records at the start of a log: all that `contents` has of the description, and the summary.
std::vector<wandb_internal::Record> WholeDescription(const LogContents& contents,
                                                     int64_t started_us);
// Nothing to change: a record without a type.
wandb_internal::Record SummaryChanges(absl::string_view summary, const LogContents& contents);

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_DESCRIPTION_H_
