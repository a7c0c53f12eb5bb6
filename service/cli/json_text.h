// JSON as the command line writes it: UTF-8, and NaN and Infinity as bare words, as Python's json
// does.

#ifndef SERVICE_CLI_JSON_TEXT_H_
#define SERVICE_CLI_JSON_TEXT_H_

#include <string>

#include "service/model/run.h"

namespace ranklog::cli {

// A member per line, indented by two, with a line feed at the end.
std::string PrettyJson(const model::Json& value);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_JSON_TEXT_H_
