#ifndef SERVICE_CLI_OUTPUT_CSV_H_
#define SERVICE_CLI_OUTPUT_CSV_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::cli {

// Appends `field` as in RFC 4180: quoted, with inner quotes doubled, if it contains a comma, a
// quote or a line break; else unchanged.
void AppendCsvField(absl::string_view field, std::string* out);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_CSV_H_
