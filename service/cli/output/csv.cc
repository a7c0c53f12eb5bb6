#include "service/cli/output/csv.h"

namespace ranklog::cli {

void AppendCsvField(absl::string_view field, std::string* out) {
  if (field.find_first_of(",\"\r\n") == absl::string_view::npos) {
    out->append(field.data(), field.size());
    return;
  }
  out->push_back('"');
  for (const char c : field) {
    if (c == '"') out->push_back('"');
    out->push_back(c);
  }
  out->push_back('"');
}

}  // namespace ranklog::cli
