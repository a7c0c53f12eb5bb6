// What all GraphQL operations of a W&B server share: the body of a request, and the answer.

#ifndef SERVICE_DELIVER_WANDB_API_GRAPHQL_H_
#define SERVICE_DELIVER_WANDB_API_GRAPHQL_H_

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "service/model/item.h"

namespace ranklog::deliver::wandb {

// The body of a request.
std::string GraphqlBody(const char* query, const char* operation, model::Json variables);
// Null for an empty text.
model::Json OrNull(const std::string& text);
// The member `field` of the data in an answer with code 200.
//   kFailedPrecondition  the server reports errors; the message contains them, shortened
//   kInternal            there is no such member
absl::StatusOr<nlohmann::json> ParseGraphql(absl::string_view body, const char* field);
// An answer within the limits of bounded_json.h; discarded if it is not JSON.
nlohmann::json ParseAnswer(absl::string_view body);
// The same, of an answer without errors.
//   kFailedPrecondition  the server reports errors; the message is `refused` with theirs, shortened
absl::StatusOr<nlohmann::json> ParseAccepted(absl::string_view body, std::string refused);
// The run in the answer to a query of project.run. Errors as above, and
//   kNotFound  the server shows no such run
absl::StatusOr<nlohmann::json> ParseRun(absl::string_view body, std::string refused);
// kInternal: a name is longer than that of a W&B server.
absl::Status CheckNames(std::initializer_list<const std::string*> names);
// A number of lines or a step from a server; nullopt if it is not a non-negative integer in range.
absl::optional<int64_t> WholeNumber(const nlohmann::json& number);
// A member of nested objects; null, or "", if it does not exist.
nlohmann::json At(const nlohmann::json& object, std::initializer_list<const char*> path);
std::string TextAt(const nlohmann::json& object, std::initializer_list<const char*> path);
// The headers in a list of "NAME:VALUE".
std::vector<std::pair<std::string, std::string>> HeadersIn(const nlohmann::json& object,
                                                           std::initializer_list<const char*> path);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_GRAPHQL_H_
