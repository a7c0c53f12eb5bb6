#include "service/deliver/json/json_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "service/base/text/utf8.h"

namespace ranklog::deliver {
namespace {

constexpr size_t kMaxNumber = 32;                      // -1.7976931348623157e+308 is 24 bytes
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

char* Put(const char* text, size_t size, char* at) {
  std::memcpy(at, text, size);
  return at + size;
}

// Writes at most kMaxNumber bytes and returns the end.
char* WriteNumber(double value, char* at) {
  if (std::fabs(value) < kExactIntegers) {  // false for NaN
    const auto whole = static_cast<int64_t>(value);
    if (static_cast<double>(whole) == value && (whole != 0 || !std::signbit(value))) {
      return std::to_chars(at, at + kMaxNumber, whole).ptr;
    }
    if (value == 0) return Put("-0.0", 4, at);
  } else if (std::isnan(value)) {
    return Put("NaN", 3, at);
  } else if (std::isinf(value)) {
    return value > 0 ? Put("Infinity", 8, at) : Put("-Infinity", 9, at);
  }
  return std::to_chars(at, at + kMaxNumber, value).ptr;
}

void AppendControl(char c, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '\n':
      out->append("\\n");
      return;
    case '\t':
      out->append("\\t");
      return;
    case '\r':
      out->append("\\r");
      return;
    default:
      out->append("\\u00");
      out->push_back(kHex[(c >> 4) & 1]);
      out->push_back(kHex[c & 15]);
  }
}

bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

void AppendObject(const model::Json& value, std::string* out) {
  out->push_back('{');
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    if (!first) out->push_back(',');
    first = false;
    AppendString(key, out);
    out->push_back(':');
    AppendJson(member, out);
  }
  out->push_back('}');
}

void AppendArray(const model::Json& value, std::string* out) {
  out->push_back('[');
  bool first = true;
  for (const model::Json& element : value) {
    if (!first) out->push_back(',');
    first = false;
    AppendJson(element, out);
  }
  out->push_back(']');
}

}  // namespace

void AppendNumber(double value, std::string* out) {
  char buffer[kMaxNumber];
  out->append(buffer, WriteNumber(value, buffer));
}

void AppendInteger(int64_t value, std::string* out) {
  char buffer[kMaxNumber];
  out->append(buffer, std::to_chars(buffer, buffer + kMaxNumber, value).ptr);
}

void AppendSeconds(int64_t micros, std::string* out) {
  if (micros < 0) out->push_back('-');
  const uint64_t size = micros < 0 ? uint64_t{0} - static_cast<uint64_t>(micros) : micros;
  char buffer[kMaxNumber];
  char* end = std::to_chars(buffer, buffer + kMaxNumber, size / 1000000).ptr;
  if (uint64_t fraction = size % 1000000; fraction != 0) {
    *end++ = '.';
    for (uint64_t digit = 100000; fraction != 0; digit /= 10) {
      *end++ = static_cast<char>('0' + fraction / digit);
      fraction %= digit;
    }
  }
  out->append(buffer, end);
}

void AppendString(absl::string_view text, std::string* out) {
  out->push_back('"');
  AppendEscaped(text, out);
  out->push_back('"');
}

void AppendEscaped(absl::string_view text, std::string* out) {
  for (size_t i = 0; i < text.size();) {
    size_t plain = i;
    while (plain < text.size() && IsPlain(text[plain])) ++plain;
    out->append(text.data() + i, plain - i);
    i = plain;
    if (i == text.size()) return;
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      AppendControl(c, out);
      ++i;
    } else if (const size_t length = Utf8Length(text.substr(i)); length > 0) {
      out->append(text.data() + i, length);
      i += length;
    } else {
      out->append("\xef\xbf\xbd");
      ++i;
    }
  }
}

void AppendJson(const model::Json& value, std::string* out) {
  switch (value.type()) {
    case model::Json::value_t::object:
      return AppendObject(value, out);
    case model::Json::value_t::array:
      return AppendArray(value, out);
    case model::Json::value_t::string:
      return AppendString(value.get_ref<const std::string&>(), out);
    case model::Json::value_t::boolean:
      out->append(value.get<bool>() ? "true" : "false");
      return;
    case model::Json::value_t::number_integer:
      return AppendInteger(value.get<int64_t>(), out);
    case model::Json::value_t::number_unsigned:
      out->append(std::to_string(value.get<uint64_t>()));
      return;
    case model::Json::value_t::number_float:
      return AppendNumber(value.get<double>(), out);
    default:  // null; binary and discarded values have no JSON form
      out->append("null");
  }
}

std::string ToJsonText(const model::Json& value) {
  std::string text;
  AppendJson(value, &text);
  return text;
}

RowFormat::RowFormat(absl::Span<const std::string> keys, absl::Span<const absl::string_view> skip) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (std::find(skip.begin(), skip.end(), absl::string_view(keys[i])) != skip.end()) continue;
    std::string once;
    AppendString(keys[i], &once);
    Member member{.prefix = "", .position = i};
    AppendEscaped(once, &member.prefix);
    escapes_ += member.prefix.size() - once.size();
    member.prefix += ':';
    bound_ += member.prefix.size() + kMaxNumber + 1;
    members_.push_back(std::move(member));
  }
}

size_t RowFormat::Append(const double* values, std::string* out) const {
  const size_t before = out->size();
  out->resize(before + bound_);
  char* at = out->data() + before;
  for (const Member& member : members_) {
    at = Put(member.prefix.data(), member.prefix.size(), at);
    at = WriteNumber(values[member.position], at);
    *at++ = ',';
  }
  out->resize(at - out->data());
  return out->size() - before - escapes_;
}

}  // namespace ranklog::deliver
