// Members of JSON objects that may be absent or of another type.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENTS_JSON_MEMBERS_H_
#define SERVICE_DELIVER_WANDB_DOCUMENTS_JSON_MEMBERS_H_

#include <cstdint>
#include <string>

#include "service/model/item.h"

namespace ranklog::deliver::wandb {

// Null if it is absent.
inline const model::Json& MemberOf(const model::Json& json, const char* key) {
  static const auto* const kNull = new model::Json();
  if (!json.is_object()) return *kNull;
  const auto found = json.find(key);
  return found == json.end() ? *kNull : *found;
}

inline std::string TextOf(const model::Json& json, const char* key) {
  const model::Json& member = MemberOf(json, key);
  return member.is_string() ? member.get<std::string>() : "";
}

inline int64_t IntegerOf(const model::Json& json, const char* key, int64_t absent = 0) {
  const model::Json& member = MemberOf(json, key);
  return member.is_number_integer() ? member.get<int64_t>() : absent;
}

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENTS_JSON_MEMBERS_H_
