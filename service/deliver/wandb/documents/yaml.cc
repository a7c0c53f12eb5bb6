#include "service/deliver/wandb/documents/yaml.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/deliver/json/json_writer.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;

// Readers look for the colon of a key at most 1024 characters after its begin.
constexpr size_t kLongestKey = 1000;

// JSON's quoted text, with the characters escaped that YAML does not allow or takes for line ends:
// DEL, U+0080 to U+009F, U+2028, U+2029, U+FFFE, U+FFFF. https://yaml.org/spec/1.1, 5.1
std::string Quoted(absl::string_view text) {
  std::string json;
  AppendString(text, &json);
  std::string quoted;
  for (size_t i = 0; i < json.size(); ++i) {
    const absl::string_view rest = absl::string_view(json).substr(i);
    const auto byte = [&](size_t at) { return static_cast<unsigned char>(rest[at]); };
    if (rest[0] == '\x7f') {
      quoted += "\\x7f";
    } else if (byte(0) == 0xC2 && byte(1) < 0xA0) {
      absl::StrAppend(&quoted, "\\x", absl::Hex(byte(1), absl::kZeroPad2));
      i += 1;
    } else if (absl::StartsWith(rest, "\xE2\x80\xA8") || absl::StartsWith(rest, "\xE2\x80\xA9")) {
      absl::StrAppend(&quoted, "\\u20", absl::Hex(byte(2) - 0x80, absl::kZeroPad2));
      i += 2;
    } else if (absl::StartsWith(rest, "\xEF\xBF\xBE") || absl::StartsWith(rest, "\xEF\xBF\xBF")) {
      absl::StrAppend(&quoted, "\\uff", absl::Hex(byte(2) + 0x40, absl::kZeroPad2));
      i += 2;
    } else {
      quoted += rest[0];
    }
  }
  return quoted;
}

void AppendScalar(const Json& value, std::string* out) {
  if (value.is_string()) {
    *out += Quoted(value.get_ref<const std::string&>());
  } else if (!value.is_number_float() || std::isfinite(value.get<double>())) {
    AppendJson(value, out);
  } else {
    const double number = value.get<double>();
    *out += std::isnan(number) ? ".nan" : number > 0 ? ".inf" : "-.inf";
  }
}

// Appends `value` after a key or a dash: in the same line, or in lines of its own.
void AppendYaml(const Json& value, size_t indent, std::string* out) {
  if (!value.is_structured()) {
    *out += ' ';
    AppendScalar(value, out);
    *out += '\n';
    return;
  }
  if (value.empty()) {
    *out += value.is_object() ? " {}\n" : " []\n";
    return;
  }
  *out += '\n';
  for (const auto& [key, member] : value.items()) {
    out->append(indent, ' ');
    if (value.is_object()) {
      const std::string quoted = Quoted(key);
      const bool is_long = quoted.size() > kLongestKey;
      absl::StrAppend(out, is_long ? "? " : "", quoted, is_long ? "\n" : "");
      if (is_long) out->append(indent, ' ');
      *out += ':';
    } else {
      *out += '-';
    }
    AppendYaml(member, indent + 2, out);
  }
}

}  // namespace

std::string ToYaml(const Json& value) {
  std::string text;
  AppendYaml(value, 0, &text);
  return text.substr(1);  // the line end or the space before the value
}

}  // namespace ranklog::deliver::wandb
