#include "client/base/text/json.h"

#include <cmath>
#include <cstdint>
#include <string_view>

#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/base/text/fields.h"
#include "client/base/text/keys.h"
#include "ranklog/value.h"

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
std::string Append(const ranklog_field& value, int depth, std::string* out) {
  if (depth > kMaxValueDepth) {
    return absl::StrCat("more than ", kMaxValueDepth, " levels of lists and objects");
  }
  const char* separator = "";
  switch (value.kind) {
    case RANKLOG_NUMBER:
      AppendDouble(value.number, out);
      break;
    case RANKLOG_TEXT:
      if (!IsUtf8(FieldText(value))) return "a text that is not UTF-8";
      AppendText(FieldText(value), out);
      break;
    case RANKLOG_FLAG:
      out->append(value.flag ? "true" : "false");
      break;
    case RANKLOG_SIGNED:
      absl::StrAppend(out, value.signed_integer);
      break;
    case RANKLOG_UNSIGNED:
      absl::StrAppend(out, value.unsigned_integer);
      break;
    case RANKLOG_NULL:
      out->append("null");
      break;
    case RANKLOG_LIST:
      out->push_back('[');
      for (const ranklog_field& item : ItemsOf(value)) {
        out->append(separator);
        separator = ",";
        std::string error = Append(item, depth + 1, out);
        if (!error.empty()) return error;
      }
      out->push_back(']');
      break;
    case RANKLOG_OBJECT:
      out->push_back('{');
      for (const ranklog_field* field : LastOfEachKey(ItemsOf(value))) {
        if (!IsUtf8(KeyOf(*field))) return "a key that is not UTF-8";
        out->append(separator);
        separator = ",";
        AppendText(KeyOf(*field), out);
        out->push_back(':');
        std::string error = Append(*field, depth + 1, out);
        if (!error.empty()) return error;
      }
      out->push_back('}');
      break;
    default:
      return absl::StrCat("the unknown kind ", value.kind);
  }
  return "";
}

}  // namespace

std::string AppendJson(const ranklog_field& value, std::string* out) {
  return Append(value, 0, out);
}

}  // namespace ranklog::internal
