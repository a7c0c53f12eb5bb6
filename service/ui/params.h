#ifndef SERVICE_UI_PARAMS_H_
#define SERVICE_UI_PARAMS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::ui {

// The parameters of a URL: "run=0-12&metric=train%2Floss&metric=lr".
class Params {
 public:
  static Params Parse(absl::string_view query);

  // The first value of that name; empty if there is none.
  std::string Get(absl::string_view name) const;
  std::vector<std::string> All(absl::string_view name) const;
  // `otherwise` if it is absent.
  //   kInvalidArgument  it is not a whole number
  absl::StatusOr<int64_t> Number(absl::string_view name, int64_t otherwise) const;

 private:
  std::vector<std::pair<std::string, std::string>> params_;
};

}  // namespace ranklog::ui

#endif  // SERVICE_UI_PARAMS_H_
