// Parses JSON from a server, which may have any shape and size. Parse all such JSON with this
// function.

#ifndef SERVICE_DELIVER_JSON_BOUNDED_JSON_H_
#define SERVICE_DELIVER_JSON_BOUNDED_JSON_H_

#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"

namespace ranklog::deliver {

// Twice the limit for ranks. JSON is copied, compared, written and freed by recursive functions. An
// answer has room for 2 million levels, which would overflow the stack.
inline constexpr size_t kMaxJsonDepth = 128;

// For an answer to a delivery, or a page of lines, which are strings; the largest has 12,100
// values. A value takes up to 200 bytes of memory, so the limit is 13 MiB. An answer has room for
// two million values.
inline constexpr size_t kMaxAnswerValues = 65536;

// For a history line, a config or a summary. The longest that is sent has 10,383,360 bytes, and a
// value takes at least two of them.
inline constexpr size_t kMaxDocumentValues = 5191680;

// Returns a discarded value if `text` is not JSON, is nested deeper than kMaxJsonDepth, or has more
// than `max_values` values. An empty array or object counts as two values. These limits are checked
// before any value is created.
nlohmann::json ParseBoundedJson(absl::string_view text, size_t max_values);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_JSON_BOUNDED_JSON_H_
