// The names of metrics, params and tags at an MLflow server.

#ifndef SERVICE_DELIVER_MLFLOW_FORMAT_NAMES_H_
#define SERVICE_DELIVER_MLFLOW_FORMAT_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace ranklog::deliver::mlflow {

inline constexpr size_t kMaxNameCharacters = 250;

// The name under which the server has `key`. The server refuses a whole request for one wrong name.
// It takes letters, digits, "_ . - / :" and spaces, and wants a normal relative path.
//
// Every other character becomes _xHHHH_, with its code point in at least 4 hexadecimal digits:
// loss[0] is loss_x005B_0_x005D_. So do the characters of a key that is not a normal path (a/, //,
// ./x), and the underscore of a key that already has such a sequence. Thus KeyOf() is the inverse.
// An empty key is _x_, and that key _x005F_x_. Letters beyond ASCII stay if they belong to a common script.
//
// A longer name than kMaxNameCharacters is cut, and ends in a hash of the key. IsCut() is then true,
// and a tag has the key.
std::string NameOf(absl::string_view key);
std::string KeyOf(absl::string_view name);
bool IsCut(absl::string_view key);

// 32 hexadecimal digits.
std::string Digest(absl::string_view text);

// The number of characters, which count for the limits of the server, and the first of them.
size_t Characters(absl::string_view utf8);
absl::string_view FirstCharacters(absl::string_view utf8, size_t most);

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_FORMAT_NAMES_H_
