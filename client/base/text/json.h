// Writes values as JSON text, for rows.

#ifndef CLIENT_BASE_TEXT_JSON_H_
#define CLIENT_BASE_TEXT_JSON_H_

#include <string>

#include "ranklog/c.h"

namespace ranklog::internal {

// Appends `value`, without its key, to `out`, without spaces and line breaks. NaN and infinities become the bare words
// NaN, Infinity and -Infinity, as in W&B's package.
//
// Returns why the value cannot be logged; `out` then has a part of it. Empty: it is written.
std::string AppendJson(const ranklog_field& value, std::string* out);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_TEXT_JSON_H_
