#ifndef SERVICE_DELIVER_NETRC_H_
#define SERVICE_DELIVER_NETRC_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::deliver {

// The password for `machine` in the text of a netrc file, else that of its `default` entry. A
// machine with a port differs from the same machine without. Skips macros and unknown tokens.
absl::optional<std::string> NetrcPassword(absl::string_view text, absl::string_view machine);

// The text without the entries of `machine`. All other text, including comments and macros, is
// unchanged.
std::string NetrcWithout(absl::string_view text, absl::string_view machine);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_NETRC_H_
