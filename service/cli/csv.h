#ifndef SERVICE_CLI_CSV_H_
#define SERVICE_CLI_CSV_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::cli {

// Appends `field` as RFC 4180 wants it: in quotes, with quotes inside doubled, where it holds a
// comma, a quote or a line break; else as it is.
void AppendCsvField(absl::string_view field, std::string* out);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_CSV_H_
