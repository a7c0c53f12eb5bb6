#include "service/deliver/offline/json_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "service/deliver/wandb/api/server_json.h"

namespace ranklog::deliver::offline {
namespace {

// The size of the value at the start of `text`: up to a comma or an end that does not belong to it.
size_t ValueSize(absl::string_view text) {
  size_t depth = 0;
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']')) {
      break;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return std::min(at, text.size());
}

absl::string_view TakeJsonValue(absl::string_view* text) {
  const size_t size = ValueSize(*text);
  const absl::string_view value = absl::StripAsciiWhitespace(text->substr(0, size));
  text->remove_prefix(size);
  return value;
}

}  // namespace

std::vector<JsonMember> MembersOf(absl::string_view object) {
  std::vector<JsonMember> members;
  object = absl::StripAsciiWhitespace(object);
  if (object.empty() || object[0] != '{') return members;
  do {
    object.remove_prefix(1);  // the brace, or a comma
    const absl::string_view key = TakeJsonValue(&object);
    if (object.empty() || object[0] != ':') break;
    object.remove_prefix(1);
    const absl::string_view value = TakeJsonValue(&object);
    members.push_back({wandb::Unquoted(key), value});
  } while (!object.empty() && object[0] == ',');
  return members;
}

absl::string_view MemberIn(absl::string_view object, absl::string_view key) {
  for (const JsonMember& member : MembersOf(object)) {
    if (member.key == std::string(key)) return member.value;
  }
  return "";
}

}  // namespace ranklog::deliver::offline
