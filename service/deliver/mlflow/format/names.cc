#include "service/deliver/mlflow/format/names.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/base/text/utf8.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr size_t kHashDigits = 16;
constexpr size_t kMinDigits = 4;
constexpr size_t kMaxDigits = 6;
constexpr char kEmpty[] = "_x_";  // the name of an empty key

// Letters and digits to the server's Python, of any version of Unicode. Rare ones are left out.
bool IsLetter(uint32_t code) {
  struct Range {
    uint32_t first;
    uint32_t last;
  };
  constexpr Range kRanges[] = {{0xC0, 0xD6},     {0xD8, 0xF6},     {0xF8, 0x24F},  // Latin
                               {0x391, 0x3A1},   {0x3A3, 0x3CE},                   // Greek
                               {0x400, 0x481},   {0x48A, 0x52F},                   // Cyrillic
                               {0x5D0, 0x5EA},   {0x620, 0x64A},                   // Hebrew, Arabic
                               {0x3041, 0x3096}, {0x30A1, 0x30FA},                 // Japanese
                               {0x4E00, 0x9FA5}, {0xAC00, 0xD7A3}};  // Chinese, Korean
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [code](Range range) { return range.first <= code && code <= range.last; });
}

// Of the first character, which has `length` bytes.
uint32_t CodeOf(absl::string_view text, size_t length) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (length == 1) return byte(0);
  uint32_t code = byte(0) & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) code = (code << 6) | (byte(i) & 0x3FU);
  return code;
}

void AppendCode(uint32_t code, std::string* out) { absl::StrAppendFormat(out, "_x%04X_", code); }

void AppendUtf8(uint32_t code, std::string* out) {
  const auto add = [out](uint32_t byte) { *out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

// The length of a sequence _xHHHH_ at the start of `text`; 0: none.
size_t EscapeLength(absl::string_view text, uint32_t* code) {
  if (!absl::StartsWith(text, "_x")) return 0;
  size_t digits = 0;
  while (2 + digits < text.size() &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[2 + digits]))) {
    ++digits;
  }
  if (digits < kMinDigits || digits > kMaxDigits || 2 + digits >= text.size()) return 0;
  if (text[2 + digits] != '_') return 0;
  if (!absl::SimpleHexAtoi(text.substr(2, digits), code)) return 0;
  return digits + 3;
}

// Whether the server would see another path if this slash or dot stayed.
bool BreaksPath(absl::string_view key, size_t at) {
  const bool begins_part = at == 0 || key[at - 1] == '/';
  const absl::string_view rest = key.substr(at);
  if (rest[0] == '/') return begins_part || rest.size() == 1;
  if (rest[0] != '.' || !begins_part) return false;
  if (at == 0 && absl::StartsWith(rest, "..")) return true;
  const absl::string_view part = rest.substr(0, rest.find('/'));
  return part == "." || part == "..";
}

// Without the limit of its length.
std::string WholeNameOf(absl::string_view key) {
  if (key.empty()) return kEmpty;
  std::string name;
  name.reserve(key.size());
  for (size_t at = 0; at < key.size();) {
    const size_t length = std::max<size_t>(Utf8Length(key.substr(at)), 1);
    const uint32_t code = CodeOf(key.substr(at), length);
    const auto c = static_cast<unsigned char>(key[at]);
    uint32_t escaped = 0;
    const bool taken = length > 1 ? IsLetter(code)
                                  : absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '-' ||
                                        c == '/' || c == ' ' || c == ':';
    const bool ambiguous =
        c == '_' && (key == kEmpty ? at == 0 : EscapeLength(key.substr(at), &escaped) > 0);
    if (!taken || ambiguous || BreaksPath(key, at)) {
      AppendCode(code, &name);
    } else {
      absl::StrAppend(&name, key.substr(at, length));
    }
    at += length;
  }
  return name;
}

}  // namespace

std::string Digest(absl::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  EVP_Digest(text.data(), text.size(), hash, &bytes, EVP_sha256(), nullptr);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), 16));
}

size_t Characters(absl::string_view utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

absl::string_view FirstCharacters(absl::string_view utf8, size_t most) {
  size_t at = 0;
  for (size_t count = 0; at < utf8.size(); ++at) {
    if ((utf8[at] & 0xC0) != 0x80 && count++ == most) break;
  }
  return utf8.substr(0, at);
}

std::string NameOf(absl::string_view key) {
  std::string name = WholeNameOf(key);
  if (name.size() <= kMaxNameCharacters || Characters(name) <= kMaxNameCharacters) return name;
  absl::string_view begin = FirstCharacters(name, kMaxNameCharacters - kHashDigits - 1);
  return absl::StrCat(begin, "-", Digest(key).substr(0, kHashDigits));
}

bool IsCut(absl::string_view key) {
  return key.size() > kMaxNameCharacters / 8 && Characters(WholeNameOf(key)) > kMaxNameCharacters;
}

std::string KeyOf(absl::string_view name) {
  if (name == kEmpty) return "";
  std::string key;
  for (size_t at = 0; at < name.size();) {
    uint32_t code = 0;
    if (const size_t length = EscapeLength(name.substr(at), &code); length > 0) {
      AppendUtf8(code, &key);
      at += length;
    } else {
      key += name[at++];
    }
  }
  return key;
}

}  // namespace ranklog::deliver::mlflow
