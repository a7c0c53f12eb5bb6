// Converts the arguments of Config(), Summary() and DefineMetric() to the messages in the ring.

#ifndef CLIENT_VALUES_H_
#define CLIENT_VALUES_H_

#include <span>
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

}  // namespace ranklog::internal

#endif  // CLIENT_VALUES_H_
