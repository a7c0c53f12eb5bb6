// Short names, for example for runs: 8 characters from a-z and 0-9.

#ifndef CLIENT_BASE_TEXT_SHORT_NAME_H_
#define CLIENT_BASE_TEXT_SHORT_NAME_H_

#include <string>
#include <string_view>

namespace ranklog::internal {

// Returns the same name for the same text.
std::string HashName(std::string_view text);

// Returns a different name in every call.
std::string RandomName();

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_TEXT_SHORT_NAME_H_
