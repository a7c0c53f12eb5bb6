// JSON in the form that the command line prints: UTF-8, with NaN and Infinity as bare words, as in
// Python's json module.

#ifndef SERVICE_CLI_OUTPUT_JSON_TEXT_H_
#define SERVICE_CLI_OUTPUT_JSON_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "service/model/run.h"

namespace ranklog::cli {

// One member per line, indented by two, with a line feed at the end.
std::string PrettyJson(const model::Json& value);

// On one line, with a line feed at the end.
std::string LineJson(const model::Json& value);

// Like PrettyJson() for an array of `size` elements. Creates one element at a time, because a store
// may have thousands of runs.
std::string PrettyJsonArray(size_t size, absl::FunctionRef<model::Json(size_t)> element);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_JSON_TEXT_H_
