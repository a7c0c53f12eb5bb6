// Reads the fields of ranklog/c.h.

#ifndef CLIENT_BASE_TEXT_FIELDS_H_
#define CLIENT_BASE_TEXT_FIELDS_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "ranklog/c.h"

namespace ranklog::internal {

// A null pointer is an empty text, or no items.
inline std::string_view View(const char* text, size_t bytes) {
  return text == nullptr ? std::string_view() : std::string_view(text, bytes);
}
inline std::string_view KeyOf(const ranklog_field& field) {
  return View(field.key, field.key_bytes);
}
inline std::string_view FieldText(const ranklog_field& field) {
  return View(field.text, field.size);
}
inline std::span<const ranklog_field> ItemsOf(const ranklog_field& field) {
  return {field.items, field.items == nullptr ? 0 : field.size};
}

// The fields of an object. If a key occurs twice, only the last of its fields.
std::vector<const ranklog_field*> LastOfEachKey(std::span<const ranklog_field> fields);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_TEXT_FIELDS_H_
