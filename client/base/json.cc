#include "client/base/json.h"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/base/keys.h"

namespace ranklog::internal {
namespace {

// The shortest text that reads back as the same double. std::to_chars() would need a newer
// libstdc++ than the library's users have.
void AppendDouble(double number, std::string* out) {
  if (std::isnan(number)) {
    out->append("NaN");
  } else if (std::isinf(number)) {
    out->append(number > 0 ? "Infinity" : "-Infinity");
  } else {
    std::string text;
    for (int digits = 15; digits <= 17; ++digits) {
      text = absl::StrFormat("%.*g", digits, number);
      double read = 0;
      absl::from_chars(text.data(), text.data() + text.size(), read);
      if (read == number) break;
    }
    out->append(text);
  }
}

void AppendText(std::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      if (c == '"' || c == '\\') out->push_back('\\');
      out->push_back(c);
    }
  }
  out->push_back('"');
}

// Returns why the value cannot be logged; empty if it is written.
std::string Append(const Value& value, int depth, std::string* out) {
  if (depth > kMaxValueDepth) {
    return absl::StrCat("more than ", kMaxValueDepth, " levels of lists and objects");
  }
  std::string error;
  if (const bool* flag = std::get_if<bool>(&value.data())) {
    out->append(*flag ? "true" : "false");
  } else if (const auto* integer = std::get_if<int64_t>(&value.data())) {
    absl::StrAppend(out, *integer);
  } else if (const auto* large = std::get_if<uint64_t>(&value.data())) {
    absl::StrAppend(out, *large);
  } else if (const auto* number = std::get_if<double>(&value.data())) {
    AppendDouble(*number, out);
  } else if (const auto* text = std::get_if<std::string>(&value.data())) {
    if (!IsUtf8(*text)) return "a text that is not UTF-8";
    AppendText(*text, out);
  } else if (const auto* list = std::get_if<std::vector<Value>>(&value.data())) {
    out->push_back('[');
    for (size_t i = 0; i < list->size() && error.empty(); ++i) {
      if (i > 0) out->push_back(',');
      error = Append((*list)[i], depth + 1, out);
    }
    out->push_back(']');
  } else if (const auto* fields = std::get_if<std::vector<Value::Field>>(&value.data())) {
    out->push_back('{');
    const char* separator = "";
    for (const Value::Field* field : LastOfEachKey(*fields)) {
      if (!error.empty()) break;
      if (!IsUtf8(field->first)) return "a key that is not UTF-8";
      out->append(separator);
      separator = ",";
      AppendText(field->first, out);
      out->push_back(':');
      error = Append(field->second, depth + 1, out);
    }
    out->push_back('}');
  } else {
    out->append("null");
  }
  return error;
}

}  // namespace

std::string AppendJson(const Value& value, std::string* out) { return Append(value, 0, out); }

std::vector<const Value::Field*> LastOfEachKey(const std::vector<Value::Field>& fields) {
  absl::flat_hash_map<absl::string_view, size_t> last;
  for (size_t i = 0; i < fields.size(); ++i) last[fields[i].first] = i;
  std::vector<const Value::Field*> kept;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (last[fields[i].first] == i) kept.push_back(&fields[i]);
  }
  return kept;
}

}  // namespace ranklog::internal
