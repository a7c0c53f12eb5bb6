// Writes values as JSON text, for rows.

#ifndef CLIENT_BASE_JSON_H_
#define CLIENT_BASE_JSON_H_

#include <string>
#include <vector>

#include "ranklog/value.h"

namespace ranklog::internal {

// Appends `value` to `out`, without spaces and line breaks. NaN and infinities become the bare words
// NaN, Infinity and -Infinity, as in W&B's package.
//
// Returns why the value cannot be logged; `out` then has a part of it. Empty: it is written.
std::string AppendJson(const Value& value, std::string* out);

// The fields of an object. If a key occurs twice, only the last of its fields.
std::vector<const Value::Field*> LastOfEachKey(const std::vector<Value::Field>& fields);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_JSON_H_
