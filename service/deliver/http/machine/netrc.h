#ifndef SERVICE_DELIVER_HTTP_MACHINE_NETRC_H_
#define SERVICE_DELIVER_HTTP_MACHINE_NETRC_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::deliver {

struct NetrcEntry {
  std::string login;
  std::string password;
};

// The first entry for `machine` that has a password and the account `project`; else the first one
// without an account; else the `default` entry. A machine with a port differs from the same machine
// without. Skips macros and unknown tokens.
absl::optional<NetrcEntry> NetrcEntryOf(absl::string_view text, absl::string_view machine,
                                        absl::string_view project = "");

// The text without the entries of `machine` with the account `project`, or without an account if it
// is empty. All other text, including comments and macros, is unchanged.
std::string NetrcWithout(absl::string_view text, absl::string_view machine,
                         absl::string_view project = "");

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_MACHINE_NETRC_H_
