#include "client/base/text/short_name.h"

#include <sys/random.h>

#include <chrono>
#include <cstdint>

namespace ranklog::internal {
namespace {

std::string ShortName(uint64_t number) {  // 8 characters of [a-z0-9]
  std::string name;
  for (int i = 0; i < 8; ++i, number /= 36) {
    name.push_back("abcdefghijklmnopqrstuvwxyz0123456789"[number % 36]);
  }
  return name;
}

}  // namespace

// FNV-1a: all ranks must get the same number, so a hash that is seeded per process does not work.
std::string HashName(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ULL;
  return ShortName(hash);
}

std::string RandomName() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    number = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return ShortName(number);
}

}  // namespace ranklog::internal
