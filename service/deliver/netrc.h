#ifndef SERVICE_DELIVER_NETRC_H_
#define SERVICE_DELIVER_NETRC_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::deliver {

// The password that the text of a netrc file has for `machine`, else that of its `default` entry. A
// machine with a port is another one than without. Macros are skipped; what is not understood is
// passed over.
absl::optional<std::string> NetrcPassword(absl::string_view text, absl::string_view machine);

// The text without the entries of `machine`; all else, comments and macros too, stays as it is.
std::string NetrcWithout(absl::string_view text, absl::string_view machine);

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_NETRC_H_
