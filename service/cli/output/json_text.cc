#include "service/cli/output/json_text.h"

#include "service/base/text/utf8.h"
#include "service/deliver/json/json_writer.h"

namespace ranklog::cli {
namespace {

using model::Json;

void NewLine(size_t depth, std::string* out) { out->append("\n").append(2 * depth, ' '); }

void Append(const Json& value, size_t depth, std::string* out) {
  if (!value.is_structured() || value.empty()) {
    deliver::AppendJson(value, out);
    return;
  }
  out->push_back(value.is_object() ? '{' : '[');
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (!first) out->push_back(',');
    first = false;
    NewLine(depth + 1, out);
    if (value.is_object()) {
      deliver::AppendString(absl::string_view(item.key().data(), item.key().size()), out);
      out->append(": ");
    }
    Append(*item, depth + 1, out);
  }
  NewLine(depth, out);
  out->push_back(value.is_object() ? '}' : ']');
}

}  // namespace

std::string PrettyJson(const Json& value) {
  std::string text;
  Append(value, /*depth=*/0, &text);
  text.push_back('\n');
  return ToUtf8(text);  // file names may contain any bytes
}

std::string LineJson(const Json& value) {
  std::string text;
  deliver::AppendJson(value, &text);
  text.push_back('\n');
  return ToUtf8(text);  // file names may contain any bytes
}

std::string PrettyJsonArray(size_t size, absl::FunctionRef<Json(size_t)> element) {
  if (size == 0) return "[]\n";
  std::string text = "[";
  for (size_t i = 0; i < size; ++i) {
    if (i > 0) text.push_back(',');
    NewLine(/*depth=*/1, &text);
    Append(element(i), /*depth=*/1, &text);
  }
  text += "\n]\n";
  return ToUtf8(text);
}

}  // namespace ranklog::cli
