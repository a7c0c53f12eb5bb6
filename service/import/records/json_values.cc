#include "service/import/records/json_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>

#include "service/model/json_text.h"

namespace ranklog::imports {
namespace {

using model::Json;

constexpr int64_t kMostExact = int64_t{1} << 53;
constexpr size_t kAlwaysExact = 15;  // digits

// Without the white space between the parts: records of W&B's package have it.
std::string Compact(absl::string_view json) {
  std::string compact;
  compact.reserve(json.size());
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\' && i + 1 < json.size()) {
      compact += c;
      compact += json[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (quoted || !space) compact += c;
  }
  return compact;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool ParseNumber(absl::string_view json, double* number) {
  if (json.empty()) return false;
  const bool negative = json[0] == '-';
  const absl::string_view digits = json.substr(negative ? 1 : 0);
  if (digits.empty()) return false;
  if (!IsDigit(digits[0])) {
    if (json == "NaN") {
      *number = std::numeric_limits<double>::quiet_NaN();
    } else if (digits == "Infinity") {
      *number = negative ? -HUGE_VAL : HUGE_VAL;
    } else {
      return false;
    }
    return true;
  }
  const char* const end = json.data() + json.size();
  const auto read = std::from_chars(json.data(), end, *number);
  if (read.ec != std::errc() || read.ptr != end) return false;
  if (digits.size() <= kAlwaysExact) return true;
  const bool whole = std::all_of(digits.begin(), digits.end(), IsDigit);
  if (!whole) return true;
  int64_t exact = 0;
  const auto integer = std::from_chars(json.data(), end, exact);
  return integer.ec == std::errc() && exact >= -kMostExact && exact <= kMostExact;
}

RowValue ToRowValue(absl::string_view json) {
  RowValue value;
  if (ParseNumber(json, &value.number)) {
    value.kind = RowValue::Kind::kNumber;
    return value;
  }
  value.text = Compact(json);
  const Json parsed = model::ParseJsonText(value.text);
  if (parsed.is_discarded()) return {};
  value.kind = RowValue::Kind::kJson;
  if (parsed.is_string()) {
    value.kind = RowValue::Kind::kText;
    value.text = parsed.get<std::string>();
  }
  return value;
}

Json ToJson(absl::string_view json) { return model::ParseJsonText(Compact(json)); }

void SetAt(absl::Span<const absl::string_view> path, Json value, bool merge, Json* root) {
  if (merge && value.is_object() && value.empty()) return;
  Json* at = root;
  for (const absl::string_view name : path) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[std::string(name)];
  }
  if (!merge || !value.is_object()) {
    *at = std::move(value);
    return;
  }
  for (auto& [key, member] : value.items()) {
    SetAt({key}, std::move(member), /*merge=*/true, at);
  }
}

}  // namespace ranklog::imports
