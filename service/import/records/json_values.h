// The values of W&B's records: JSON text with the bare words NaN, Infinity and -Infinity.

#ifndef SERVICE_IMPORT_RECORDS_JSON_VALUES_H_
#define SERVICE_IMPORT_RECORDS_JSON_VALUES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/model/item.h"

namespace ranklog::imports {

// As a row has it.
struct RowValue {
  enum class Kind {
    kNumber,
    kText,
    kJson,     // `text` is JSON text as model::ParseJsonText() takes it
    kNotJson,  // neither
  };
  Kind kind = Kind::kNotJson;
  double number = 0;
  std::string text{};
};

// An integer that a double cannot hold is kJson.
RowValue ToRowValue(absl::string_view json);

// False if it is not a number that a double can hold.
bool ParseNumber(absl::string_view json, double* number);

// A discarded value if it is not JSON, or nested too deeply.
model::Json ToJson(absl::string_view json);

// Sets the value at a path below `root`. What is not an object on the way is replaced by one.
// `merge`: an object is taken apart, so that its neighbours stay; an empty one changes nothing.
void SetAt(absl::Span<const absl::string_view> path, model::Json value, bool merge,
           model::Json* root);

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_RECORDS_JSON_VALUES_H_
