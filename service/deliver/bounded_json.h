// JSON that a server wrote, and so may have any shape and size. All of it is parsed here.

#ifndef SERVICE_DELIVER_BOUNDED_JSON_H_
#define SERVICE_DELIVER_BOUNDED_JSON_H_

#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"

namespace ranklog::deliver {

// Twice what ranks may send. JSON is copied, compared, written and freed by functions that call
// themselves for each level: 2 million levels, which fit into an answer, would overflow the stack.
inline constexpr size_t kMaxJsonDepth = 128;

// Of an answer to a delivery, or a page of lines, which are texts: the largest has 12,100. A value
// takes up to some 200 bytes, so this many 13 MiB; an answer has room for two million.
inline constexpr size_t kMaxAnswerValues = 65536;

// Of a history line, a config or a summary: the longest that is sent has 10,383,360 bytes, and a
// value takes two of them at least.
inline constexpr size_t kMaxDocumentValues = 5191680;

// Discarded if `text` is not JSON, has arrays and objects more than kMaxJsonDepth deep, or more
// than `max_values` values, of which an empty array or object counts as two. That is found out
// before any value is made.
nlohmann::json ParseBoundedJson(absl::string_view text, size_t max_values);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_BOUNDED_JSON_H_
