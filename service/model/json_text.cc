#include "service/model/json_text.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>

namespace ranklog::model {
namespace {

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  Json Document() {
    Json value = Value(/*depth=*/0);
    return text_.empty() ? value : Discarded();
  }

 private:
  static Json Discarded() { return Json(Json::value_t::discarded); }

  bool Take(absl::string_view word) {
    if (text_.substr(0, word.size()) != word) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  Json Value(size_t depth) {
    if (depth > kMaxJsonTextDepth) return Discarded();
    if (Take("{")) return Object(depth);
    if (Take("[")) return List(depth);
    if (Take("NaN")) return std::numeric_limits<double>::quiet_NaN();
    if (Take("Infinity")) return std::numeric_limits<double>::infinity();
    if (Take("-Infinity")) return -std::numeric_limits<double>::infinity();
    return Scalar();
  }

  Json Object(size_t depth) {
    Json object = Json::object();
    if (Take("}")) return object;
    do {
      const Json key = Scalar();
      if (!key.is_string() || !Take(":")) return Discarded();
      Json value = Value(depth + 1);
      if (value.is_discarded()) return value;
      object[key.get_ref<const std::string&>()] = std::move(value);
    } while (Take(","));
    return Take("}") ? object : Discarded();
  }

  Json List(size_t depth) {
    Json list = Json::array();
    if (Take("]")) return list;
    do {
      list.push_back(Value(depth + 1));
      if (list.back().is_discarded()) return Discarded();
    } while (Take(","));
    return Take("]") ? list : Discarded();
  }

  // A string, a number, true, false or null, which the library parses.
  Json Scalar() {
    size_t end = 0;
    if (!text_.empty() && text_[0] == '"') {
      for (end = 1; end < text_.size() && text_[end] != '"'; ++end) {
        if (text_[end] == '\\') ++end;  // an escaped quote does not end the string
      }
      if (++end > text_.size()) return Discarded();
    } else {
      // The library would skip spaces, and stop at a zero byte.
      while (end < text_.size() && text_[end] != '\0' &&
             std::strchr("+-.0123456789aeEflnrstu", text_[end]) != nullptr) {
        ++end;
      }
    }
    const absl::string_view scalar = text_.substr(0, end);
    text_.remove_prefix(end);
    return Json::parse(scalar.begin(), scalar.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
  }

  absl::string_view text_;
};

}  // namespace

Json ParseJsonText(absl::string_view text) { return Parser(text).Document(); }

}  // namespace ranklog::model
