#include "service/ui/params.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ranklog::ui {
namespace {

std::string Decoded(absl::string_view text) {
  const auto digit = [](char c) {
    return c <= '9' ? c - '0' : absl::ascii_tolower(static_cast<unsigned char>(c)) - 'a' + 10;
  };
  const auto is_hex = [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && is_hex(text[i + 1]) && is_hex(text[i + 2])) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace

Params Params::Parse(absl::string_view query) {
  Params params;
  for (const absl::string_view part : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    params.params_.emplace_back(Decoded(pair.first), Decoded(pair.second));
  }
  return params;
}

std::string Params::Get(absl::string_view name) const {
  for (const auto& [key, value] : params_) {
    if (absl::string_view(key) == name) return value;
  }
  return "";
}

std::vector<std::string> Params::All(absl::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : params_) {
    if (absl::string_view(key) == name) values.push_back(value);
  }
  return values;
}

absl::StatusOr<int64_t> Params::Number(absl::string_view name, int64_t otherwise) const {
  const std::string text = Get(name);
  if (text.empty()) return otherwise;
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat(name, " is not a whole number"));
}

}  // namespace ranklog::ui
