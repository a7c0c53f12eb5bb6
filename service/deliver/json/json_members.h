// Members of JSON objects that may be absent or of another type. `J` is model::Json or
// nlohmann::json.

#ifndef SERVICE_DELIVER_JSON_JSON_MEMBERS_H_
#define SERVICE_DELIVER_JSON_JSON_MEMBERS_H_

#include <cstdint>
#include <string>

namespace ranklog::deliver {

// Null if it is absent.
template <typename J>
const J& MemberOf(const J& json, const char* key) {
  static const auto* const kNull = new J();
  if (!json.is_object()) return *kNull;
  const auto found = json.find(key);
  return found == json.end() ? *kNull : *found;
}

template <typename J>
std::string TextOf(const J& json, const char* key) {
  const J& member = MemberOf(json, key);
  return member.is_string() ? member.template get<std::string>() : "";
}

template <typename J>
int64_t IntegerOf(const J& json, const char* key, int64_t absent = 0) {
  const J& member = MemberOf(json, key);
  return member.is_number_integer() ? member.template get<int64_t>() : absent;
}

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_JSON_JSON_MEMBERS_H_
