#include "service/deliver/wandb/api/server_json.h"

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/json/bounded_json.h"

namespace ranklog::deliver::wandb {
namespace {

using nlohmann::json;

constexpr size_t kShown = 80;  // bytes of a value in the text of a difference

void RestoreNumbers(model::Json* value) {
  if (value->is_structured()) {
    for (model::Json& member : *value) RestoreNumbers(&member);
  } else if (value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "NaN")
      *value = std::nan("");
    else if (text == "Infinity")
      *value = kInfinity;
    else if (text == "-Infinity")
      *value = -kInfinity;
  }
}

bool IsWordChar(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

absl::Status CheckAnswer(const HttpResponse& answer) {
  if (ParseBoundedJson(answer.body, kMaxAnswerValues).is_object()) return absl::OkStatus();
  const std::string text = Excerpt(answer.body);
  if (text.empty() || text[0] == '<') return absl::UnavailableError(Explain(answer));
  return absl::UnavailableError(
      absl::StrCat("HTTP ", answer.code, " with a body that is not a JSON object: ", text));
}

bool SaysStop(const HttpResponse& answer) {
  if (!absl::StrContains(answer.body, "\"stopped\"")) return false;
  const json body = ParseBoundedJson(answer.body, kMaxAnswerValues);
  const auto stopped = body.is_object() ? body.find("stopped") : body.end();
  return stopped != body.end() && *stopped == json(true);
}

json ParseServerJson(absl::string_view line) {
  std::string strict;
  strict.reserve(line.size() + 16);
  bool in_text = false;
  for (size_t i = 0; i < line.size();) {
    const char c = line[i];
    const bool word = !in_text && (c == 'N' || c == 'I' ||
                                   (c == '-' && i + 1 < line.size() && line[i + 1] == 'I'));
    if (word) {
      strict += '"';
      do {
        strict += line[i++];
      } while (i < line.size() && IsWordChar(line[i]));
      strict += '"';
      continue;
    }
    if (c == '"') in_text = !in_text;
    if (in_text && c == '\\' && i + 1 < line.size())
      strict += line[i++];  // copies the backslash; the next line copies the escaped character
    strict += line[i++];
  }
  return ParseBoundedJson(strict, kMaxDocumentValues);
}

model::Json FromServer(const json& value) {
  model::Json ours = model::Json::parse(value.dump());
  RestoreNumbers(&ours);
  return ours;
}

std::string Unquoted(absl::string_view quoted) {
  const json text = ParseBoundedJson(quoted, /*max_values=*/1);
  return text.is_string() ? text.get<std::string>() : "";
}

bool SameValue(const json& a, const json& b) {
  if (a.is_number() && b.is_number() && (a.is_number_float() || b.is_number_float())) {
    return a.get<double>() == b.get<double>();
  }
  return a == b;
}

std::string ShownValue(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace ranklog::deliver::wandb
