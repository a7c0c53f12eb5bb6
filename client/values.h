// Config(), Summary() and DefineMetric() as they go into the ring.

#ifndef CLIENT_VALUES_H_
#define CLIENT_VALUES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "ranklog/run.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/value.h"

namespace ranklog::internal {

// Converts an object. A key twice: the last one counts.
//   kInvalidArgument   a text or a key is not UTF-8, or it is deeper than kMaxValueDepth
absl::Status ToProto(const std::vector<Value::Field>& fields, v1::Object* object);

//   kInvalidArgument   the name is no key, or an option is none of those listed
absl::Status ToProto(std::string_view name, const MetricOptions& options,
                     v1::MetricDefinition* definition);

}  // namespace ranklog::internal

#endif  // CLIENT_VALUES_H_
