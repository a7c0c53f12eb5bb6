// What makes a key and a text fit to be logged.

#ifndef CLIENT_KEYS_H_
#define CLIENT_KEYS_H_

#include <string>
#include <string_view>

namespace ranklog::internal {

// True if `text` is UTF-8 without overlong forms and surrogates, as the wire demands. Any length.
bool IsUtf8(std::string_view text);

// Why `key` cannot be logged, a sentence with the key in it; empty if it can: 1 to kMaxKeyBytes
// bytes of UTF-8 that do not start with "_".
std::string KeyError(std::string_view key);

}  // namespace ranklog::internal

#endif  // CLIENT_KEYS_H_
