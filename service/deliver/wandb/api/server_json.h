// JSON as W&B servers return it: same values, other bytes than those sent.

#ifndef SERVICE_DELIVER_WANDB_API_SERVER_JSON_H_
#define SERVICE_DELIVER_WANDB_API_SERVER_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/deliver/http/transport.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {

// Checks an answer with a success code. W&B servers always send a JSON object, possibly empty.
//   kUnavailable  something else answered (a login page, a captive portal, a proxy), or the answer
//                 exceeds the limits of bounded_json.h; the message describes it
absl::Status CheckAnswer(const HttpResponse& answer);

// Whether the answer to a post of the file stream says that a person asked the run to stop.
bool SaysStop(const HttpResponse& answer);

// Parses a line, a config or a summary within the limits of bounded_json.h. The bare words NaN,
// Infinity and -Infinity are allowed and become strings. Returns a discarded value for anything
// else.
nlohmann::json ParseServerJson(absl::string_view text);

// The same value as ours: the texts NaN, Infinity and -Infinity are numbers again.
model::Json FromServer(const nlohmann::json& value);

// The decoded text of `quoted`, a JSON string; empty if it is not a JSON string.
std::string Unquoted(absl::string_view quoted);

// Compares numbers by value: 1 equals 1.0.
bool SameValue(const nlohmann::json& a, const nlohmann::json& b);

// The first 80 bytes, to be shown to users.
std::string ShownValue(const nlohmann::json& value);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_SERVER_JSON_H_
