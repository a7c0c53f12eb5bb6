// Asks whose key it is, and what the server can do.

#ifndef SERVICE_DELIVER_WANDB_API_SERVER_INFO_H_
#define SERVICE_DELIVER_WANDB_API_SERVER_INFO_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

// Asks for the account of the key. ParseViewer() returns its name; empty: the server does not know
// the key.
std::string ViewerBody();
std::string ParseViewer(absl::string_view body);

std::string FeaturesBody();
// The names of the enabled features; empty if the answer has no such list.
std::set<std::string> ParseFeatures(absl::string_view body);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_SERVER_INFO_H_
