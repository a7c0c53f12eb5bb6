// JSON text as trackers want it, fast enough that formatting a row costs less than compressing it.
//
// Numbers are the shortest text that reads back as the same double; whole ones below 2^53 are
// written as integers. NaN and infinities become the bare words NaN, Infinity, -Infinity, which
// trackers read though JSON has no such thing: they may stand only in text that itself travels in a
// string. Bytes that are not UTF-8 become U+FFFD, so what comes out is always valid UTF-8.

#ifndef SERVICE_DELIVER_JSON_WRITER_H_
#define SERVICE_DELIVER_JSON_WRITER_H_

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
// Microseconds as seconds: 1500000 is 1.5. Exact, where a double would be off in the last digit.
void AppendSeconds(int64_t micros, std::string* out);
// With its quotes.
void AppendString(absl::string_view text, std::string* out);
// What stands between the quotes.
void AppendEscaped(absl::string_view text, std::string* out);
// Without blanks, keys in their order.
void AppendJson(const model::Json& value, std::string* out);
std::string ToJsonText(const model::Json& value);

// The numbers of rows of one shape as members of an object that itself stands in a JSON string. The
// keys are escaped, twice, when this is made; a row costs the copying of them and the formatting of
// its values.
class RowFormat {
 public:
  // Keys that `skip` names are left out.
  RowFormat(absl::Span<const std::string> keys, absl::Span<const absl::string_view> skip);

  // Appends `"a":1,"b":2,`, with every quote escaped for the string around it. `values` has one
  // value per key. Returns how many bytes it is without that escaping.
  size_t Append(const double* values, std::string* out) const;

 private:
  struct Member {
    std::string prefix;  // \"key\":
    size_t position;     // of its value
  };
  std::vector<Member> members_;
  size_t bound_ = 0;    // bytes that a row takes at most
  size_t escapes_ = 0;  // bytes that the outer escaping adds to each row
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_JSON_WRITER_H_
