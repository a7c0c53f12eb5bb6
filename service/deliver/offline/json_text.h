// Takes JSON text apart without changing how its values are written: the text of a number says more
// than a parsed one.

#ifndef SERVICE_DELIVER_OFFLINE_JSON_TEXT_H_
#define SERVICE_DELIVER_OFFLINE_JSON_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ranklog::deliver::offline {

struct JsonMember {
  std::string key;
  absl::string_view value;  // JSON, possibly with bare NaN and infinities
};

// The members of an object that this program wrote; they point into `object`. Empty for anything
// else.
std::vector<JsonMember> MembersOf(absl::string_view object);
// The text of a member of an object; empty: absent.
absl::string_view MemberIn(absl::string_view object, absl::string_view key);

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_JSON_TEXT_H_
