#include "service/deliver/wandb/api/graphql.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/json/bounded_json.h"
#include "service/deliver/json/json_writer.h"

namespace ranklog::deliver::wandb {

using model::Json;
using nlohmann::json;

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

std::string GraphqlBody(const char* query, const char* operation, Json variables) {
  return ToJsonText(
      {{"query", query}, {"variables", std::move(variables)}, {"operationName", operation}});
}

json ParseAnswer(absl::string_view body) { return ParseBoundedJson(body, kMaxAnswerValues); }

absl::StatusOr<json> ParseAccepted(absl::string_view body, std::string refused) {
  json answer = ParseAnswer(body);
  const json errors = At(answer, {"errors"});
  if (!errors.is_array() || errors.empty()) return answer;
  for (const json& error : errors) absl::StrAppend(&refused, ": ", TextAt(error, {"message"}));
  return absl::FailedPreconditionError(Excerpt(refused));
}

absl::StatusOr<json> ParseRun(absl::string_view body, std::string refused) {
  ASSIGN_OR_RETURN(const json answer, ParseAccepted(body, std::move(refused)));
  json run = At(answer, {"data", "project", "run"});
  if (At(answer, {"data"}).is_object() && run.is_null()) {
    return absl::NotFoundError("the server shows no such run");
  }
  return run;
}

absl::StatusOr<json> ParseGraphql(absl::string_view body, const char* field) {
  ASSIGN_OR_RETURN(const json answer,
                   ParseAccepted(body, absl::StrCat("the server refused ", field)));
  json found = At(answer, {"data", field});
  if (found.is_null()) {
    return absl::InternalError(
        absl::StrCat(field, ": the answer does not have it; is this a W&B server?"));
  }
  return found;
}

absl::Status CheckNames(std::initializer_list<const std::string*> names) {
  // Names are stored with the delivery and used in URLs. W&B limits each to 128 characters.
  constexpr size_t kMaxName = 1024;
  for (const std::string* name : names) {
    if (name->size() <= kMaxName) continue;
    return absl::InternalError(
        absl::StrCat("the answer has a name of ", name->size(), " bytes; is this a W&B server?"));
  }
  return absl::OkStatus();
}

absl::optional<int64_t> WholeNumber(const json& number) {
  // Above 2^53, not every JSON reader keeps the exact value, and sums could overflow.
  constexpr uint64_t kMax = uint64_t{1} << 53;
  if (!number.is_number_unsigned() || number.get<uint64_t>() > kMax) return absl::nullopt;
  return number.get<int64_t>();
}

json At(const json& object, std::initializer_list<const char*> path) {
  const json* at = &object;
  for (const char* const key : path) {
    if (!at->is_object() || !at->contains(key)) return nullptr;
    at = &at->at(key);
  }
  return *at;
}

std::string TextAt(const json& object, std::initializer_list<const char*> path) {
  const json found = At(object, path);
  return found.is_string() ? found.get<std::string>() : "";
}

std::vector<std::pair<std::string, std::string>> HeadersIn(
    const json& object, std::initializer_list<const char*> path) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const json& header : At(object, path)) {
    const std::string text = header.is_string() ? header.get<std::string>() : "";
    const size_t colon = text.find(':');
    if (colon == std::string::npos) continue;
    headers.emplace_back(text.substr(0, colon), absl::StripAsciiWhitespace(text.substr(colon + 1)));
  }
  return headers;
}

}  // namespace ranklog::deliver::wandb
