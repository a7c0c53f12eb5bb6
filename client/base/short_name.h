// Short names, as of runs: 8 characters of a-z 0-9.

#ifndef CLIENT_BASE_SHORT_NAME_H_
#define CLIENT_BASE_SHORT_NAME_H_

#include <string>
#include <string_view>

namespace ranklog::internal {

// Equal for equal texts.
std::string HashName(std::string_view text);

// Different in every call.
std::string RandomName();

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_SHORT_NAME_H_
