#include "service/deliver/json/bounded_json.h"

namespace ranklog::deliver {
namespace {

// Counts brackets and commas outside of strings. Up to the first error in `text`, where the parser
// stops, it finds the same strings as the parser.
bool IsWithinBounds(absl::string_view text, size_t max_values) {
  size_t depth = 0;
  // Upper limit: each value is the first one, or follows an opening bracket or a comma.
  size_t values = 1;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') {
        ++i;  // an escaped quote does not end the string
      } else if (c == '"') {
        in_text = false;
      }
      continue;
    }
    switch (c) {
      case '"':
        in_text = true;
        break;
      case '[':
      case '{':
        if (++depth > kMaxJsonDepth || ++values > max_values) return false;
        break;
      case ']':
      case '}':
        if (depth == 0) return false;
        --depth;
        break;
      case ',':
        if (++values > max_values) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

}  // namespace

nlohmann::json ParseBoundedJson(absl::string_view text, size_t max_values) {
  using nlohmann::json;
  if (!IsWithinBounds(text, max_values)) return json(json::value_t::discarded);
  return json::parse(text.begin(), text.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
}

}  // namespace ranklog::deliver
