// JSON as W&B servers hand it out: by value, not by byte.

#ifndef SERVICE_DELIVER_WANDB_SERVER_JSON_H_
#define SERVICE_DELIVER_WANDB_SERVER_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/deliver/transport.h"

namespace ranklog::deliver::wandb {

// Of an answer with a code of success: W&B servers send a JSON object with each, be it empty.
//   kUnavailable  another program answered, such as a login page, a captive portal or a proxy; or
//                 the answer is beyond the bounds of bounded_json.h. The message says what came
absl::Status CheckAnswer(const HttpResponse& answer);

// A line, a config or a summary: JSON within the bounds of bounded_json.h, in which NaN, Infinity
// and -Infinity may stand as bare words: they become texts. Discarded if it is anything else.
nlohmann::json ParseServerJson(absl::string_view text);

// The text of `quoted`, a JSON string; empty if it is anything else.
std::string Unquoted(absl::string_view quoted);

// 1 is 1.0.
bool SameValue(const nlohmann::json& a, const nlohmann::json& b);

// For people: the first 80 bytes.
std::string ShownValue(const nlohmann::json& value);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_SERVER_JSON_H_
