// Converts the arguments of Config(), Summary(), DefineMetric() and Alert() to the messages in the ring.

#ifndef CLIENT_VALUES_H_
#define CLIENT_VALUES_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "ranklog/c.h"
#include "ranklog/run.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

// Converts an object. If a key occurs twice, the last value counts.
//   kInvalidArgument   a string or a key is not UTF-8, the nesting exceeds kMaxValueDepth, or a kind
//                      is unknown
absl::Status ToProto(std::span<const ranklog_field> fields, v1::Object* object);

//   kInvalidArgument   the name is not a valid key, or an option has an unknown value
absl::Status ToProto(std::string_view name, const MetricOptions& options,
                     v1::MetricDefinition* definition);

// Everything of an artifact but its files. Adds a member `entries` with its references.
//   kInvalidArgument  a name, a type or a text is not valid
absl::Status ToProto(const ranklog_artifact& artifact, v1::Object* object);
// Why a file of a run cannot have this path there; empty: it can.
std::string FileNameError(std::string_view name);
// `alert` gets the members that proto/items.md describes.
//   kInvalidArgument   the title does not have 1 to 64 characters, a text is not UTF-8, or the level
//                      or the wait is out of range
absl::Status ToProto(const ranklog_alert_options& options, v1::Object* alert);
// The same for the name of an artifact that the run uses.
//   kInvalidArgument  not [[ENTITY/]PROJECT/]NAME[:ALIAS]
absl::Status UseToProto(std::string_view name, v1::Object* artifact);

}  // namespace ranklog::internal

#endif  // CLIENT_VALUES_H_
