// The JSON text of a row's value that is not a double, as ranks send it (proto/README.md).

#ifndef SERVICE_MODEL_JSON_TEXT_H_
#define SERVICE_MODEL_JSON_TEXT_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "service/model/run.h"

namespace ranklog::model {

// Twice the limit of the ranks. Values are read, copied and freed by recursive functions.
inline constexpr size_t kMaxJsonTextDepth = 64;

// Parses JSON text without spaces and line breaks, which may contain the bare words NaN, Infinity
// and -Infinity as numbers. Returns a discarded value (Json::is_discarded()) for any other text, and
// for text that is nested deeper than kMaxJsonTextDepth.
Json ParseJsonText(absl::string_view text);

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_JSON_TEXT_H_
