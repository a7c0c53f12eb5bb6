// SHA-1, for ids only: it is not safe against somebody who chooses the text.

#ifndef CLIENT_BASE_HASH_SHA1_H_
#define CLIENT_BASE_HASH_SHA1_H_

#include <string>
#include <string_view>

namespace ranklog::internal {

// The SHA-1 of `text` as 40 hexadecimal digits in small letters. Source: FIPS 180-4, 6.1.
std::string Sha1(std::string_view text);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_HASH_SHA1_H_
