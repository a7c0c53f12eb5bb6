#include "service/deliver/wandb/yaml.h"

#include <cmath>

#include "service/deliver/json_writer.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;

void AppendScalar(const Json& value, std::string* out) {
  if (!value.is_number_float() || std::isfinite(value.get<double>())) {
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
      AppendString(key, out);
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
