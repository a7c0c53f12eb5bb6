// Writes JSON text in the form that trackers expect. Fast enough that formatting a row costs less
// than compressing it.
//
// Numbers use the shortest text that reads back as the same double. Whole numbers below 2^53 are
// written as integers. NaN and infinities become the bare words NaN, Infinity and -Infinity.
// Trackers read them although they are not valid JSON, so use them only in text that is itself sent
// inside a string. Invalid UTF-8 bytes become U+FFFD, so the output is always valid UTF-8.

#ifndef SERVICE_DELIVER_JSON_JSON_WRITER_H_
#define SERVICE_DELIVER_JSON_JSON_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/model/run.h"

namespace ranklog::deliver {

void AppendNumber(double value, std::string* out);
void AppendInteger(int64_t value, std::string* out);
// Writes microseconds as seconds: 1500000 is 1.5. Exact, while a double would have a wrong last
// digit.
void AppendSeconds(int64_t micros, std::string* out);
// Writes the text with its quotes.
void AppendString(absl::string_view text, std::string* out);
// Writes the text without its quotes.
void AppendEscaped(absl::string_view text, std::string* out);
// Writes no spaces and keeps the order of the keys.
void AppendJson(const model::Json& value, std::string* out);
std::string ToJsonText(const model::Json& value);

// Formats the numbers of rows of one shape as members of an object inside a JSON string. The keys
// are escaped twice, but only at construction. A row then costs a copy of the keys and the
// formatting of its values.
class RowFormat {
 public:
  // Leaves out the keys in `skip`.
  RowFormat(absl::Span<const std::string> keys, absl::Span<const absl::string_view> skip);

  // Appends `"a":1,"b":2,`, with every quote escaped for the surrounding string. `values` has one
  // value per key. Returns the number of bytes without that escaping.
  size_t Append(const double* values, std::string* out) const;

 private:
  struct Member {
    std::string prefix;  // \"key\":
    size_t position;     // position of its value
  };
  std::vector<Member> members_;
  size_t bound_ = 0;    // upper limit for the bytes of a row
  size_t escapes_ = 0;  // bytes that the outer escaping adds to each row
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_JSON_JSON_WRITER_H_
