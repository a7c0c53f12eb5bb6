#include "client/values.h"

#include <algorithm>
#include <array>
#include <variant>

#include "client/base/json.h"
#include "client/base/keys.h"

namespace ranklog::internal {
namespace {

absl::Status ConvertObject(const std::vector<Value::Field>& fields, int depth, v1::Object* object);

absl::Status Convert(const Value& value, int depth, v1::Value* out) {
  if (depth > kMaxValueDepth) {
    return absl::InvalidArgumentError("a value has more than " + std::to_string(kMaxValueDepth) +
                                      " levels of lists and objects");
  }
  if (const bool* flag = std::get_if<bool>(&value.data())) {
    out->set_flag(*flag);
  } else if (const int64_t* integer = std::get_if<int64_t>(&value.data())) {
    out->set_integer(*integer);
  } else if (const uint64_t* large = std::get_if<uint64_t>(&value.data())) {
    out->set_unsigned_integer(*large);
  } else if (const double* number = std::get_if<double>(&value.data())) {
    out->set_number(*number);
  } else if (const std::string* text = std::get_if<std::string>(&value.data())) {
    if (!IsUtf8(*text)) return absl::InvalidArgumentError("a text is not UTF-8");
    out->set_text(*text);
  } else if (const auto* list = std::get_if<std::vector<Value>>(&value.data())) {
    v1::List* converted = out->mutable_list();
    for (const Value& item : *list) {
      absl::Status status = Convert(item, depth + 1, converted->add_values());
      if (!status.ok()) return status;
    }
  } else if (const auto* fields = std::get_if<std::vector<Value::Field>>(&value.data())) {
    return ConvertObject(*fields, depth + 1, out->mutable_object());
  }
  return absl::OkStatus();
}

absl::Status ConvertObject(const std::vector<Value::Field>& fields, int depth, v1::Object* object) {
  for (const Value::Field* each : LastOfEachKey(fields)) {
    const auto& [key, value] = *each;
    if (!IsUtf8(key)) return absl::InvalidArgumentError("a key is not UTF-8");
    v1::Field* field = object->add_fields();
    field->set_key(key);
    absl::Status status = Convert(value, depth, field->mutable_value());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <size_t n>
bool Contains(const std::array<std::string_view, n>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

constexpr std::array<std::string_view, 6> kSummaries = {"min",  "max",   "mean",
                                                        "last", "first", "best"};

}  // namespace

absl::Status ToProto(const std::vector<Value::Field>& fields, v1::Object* object) {
  return ConvertObject(fields, 1, object);
}

absl::Status ToProto(std::string_view name, const MetricOptions& options,
                     v1::MetricDefinition* definition) {
  std::string error = KeyError(name);
  if (error.empty() && !options.step_metric.empty()) error = KeyError(options.step_metric);
  // The only reserved key that can be an axis.
  if (options.step_metric == "_step") error.clear();
  for (const std::string& item : options.summary) {
    if (item != "none" && !Contains(kSummaries, item)) {
      error = "summary must be min, max, mean, last, first, best or none";
    }
  }
  if (!options.goal.empty() && options.goal != "minimize" && options.goal != "maximize") {
    error = "goal must be minimize or maximize";
  }
  if (!error.empty()) return absl::InvalidArgumentError("DefineMetric: " + error);
  definition->set_name(name.data(), name.size());
  definition->set_step_metric(options.step_metric);
  definition->set_step_sync(options.step_sync);
  definition->set_hidden(options.hidden);
  for (const std::string& item : options.summary) definition->add_summary(item);
  definition->set_goal(options.goal);
  return absl::OkStatus();
}

}  // namespace ranklog::internal
