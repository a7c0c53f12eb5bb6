// What describes a run at an MLflow server: its params and tags.

#ifndef SERVICE_DELIVER_MLFLOW_FORMAT_DESCRIPTION_H_
#define SERVICE_DELIVER_MLFLOW_FORMAT_DESCRIPTION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/deliver/mlflow/api.h"
#include "service/model/run.h"

namespace ranklog::deliver::mlflow {

// Tags of our own. README.md describes them.
inline constexpr char kRunTag[] = "ranklog.run";       // digest of the project and the run's id
inline constexpr char kDeliveryTag[] = "ranklog.uid";  // of the delivery that made the run
inline constexpr char kJobTag[] = "ranklog.job";       // of a parent: digest of its job
inline constexpr char kParentTag[] = "mlflow.parentRunId";
inline constexpr char kSummaryTag[] = "ranklog.summary.";  // + name

struct Description {
  Pairs params;
  Pairs tags;
  // What the server cannot hold as it is: a text for the user, and the value.
  Pairs cut;
};

// The config becomes params: a member of an object has the name of the object, a dot, and its own.
// Values as Python's str() writes them, and lists as JSON.
//
// `items` and `streams` are all of the run's, `shapes` those of its rows.
Description Describe(const model::Run& run, absl::Span<const model::Stream> streams,
                     absl::Span<const model::StoredItem> items,
                     absl::Span<const std::vector<std::string>> shapes);

// The tag with a later value of a param.
std::string ChangedParamTag(const std::string& name);

// The text of a value of the config or the summary.
std::string ValueText(const model::Json& value);

// The digests that find a run and its parent again.
std::string RunDigest(const model::Run& run);
std::string DeliveryDigest(const model::Run& run);
std::string JobDigest(const model::Run& run, const std::string& job_id);

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_FORMAT_DESCRIPTION_H_
