#include "client/values.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "client/base/fields.h"
#include "client/base/keys.h"

namespace ranklog::internal {
namespace {

absl::Status ConvertObject(std::span<const ranklog_field> fields, int depth, v1::Object* object);

absl::Status Convert(const ranklog_field& value, int depth, v1::Value* out) {
  if (depth > kMaxValueDepth) {
    return absl::InvalidArgumentError("a value has more than " + std::to_string(kMaxValueDepth) +
                                      " levels of lists and objects");
  }
  switch (value.kind) {
    case RANKLOG_NUMBER:
      out->set_number(value.number);
      break;
    case RANKLOG_TEXT:
      if (!IsUtf8(FieldText(value))) return absl::InvalidArgumentError("a text is not UTF-8");
      out->set_text(std::string(FieldText(value)));
      break;
    case RANKLOG_FLAG:
      out->set_flag(value.flag);
      break;
    case RANKLOG_SIGNED:
      out->set_integer(value.signed_integer);
      break;
    case RANKLOG_UNSIGNED:
      if (value.unsigned_integer <= uint64_t{INT64_MAX}) {
        out->set_integer(static_cast<int64_t>(value.unsigned_integer));
      } else {
        out->set_unsigned_integer(value.unsigned_integer);
      }
      break;
    case RANKLOG_NULL:
      break;
    case RANKLOG_LIST: {
      v1::List* const list = out->mutable_list();
      for (const ranklog_field& item : ItemsOf(value)) {
        absl::Status status = Convert(item, depth + 1, list->add_values());
        if (!status.ok()) return status;
      }
      break;
    }
    case RANKLOG_OBJECT:
      return ConvertObject(ItemsOf(value), depth + 1, out->mutable_object());
    default:
      return absl::InvalidArgumentError("a value has the unknown kind " +
                                        std::to_string(value.kind));
  }
  return absl::OkStatus();
}

absl::Status ConvertObject(std::span<const ranklog_field> fields, int depth, v1::Object* object) {
  for (const ranklog_field* from : LastOfEachKey(fields)) {
    if (!IsUtf8(KeyOf(*from))) return absl::InvalidArgumentError("a key is not UTF-8");
    v1::Field* field = object->add_fields();
    field->set_key(std::string(KeyOf(*from)));
    absl::Status status = Convert(*from, depth, field->mutable_value());
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

absl::Status ToProto(std::span<const ranklog_field> fields, v1::Object* object) {
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
