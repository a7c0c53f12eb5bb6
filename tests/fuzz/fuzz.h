// MUST(), the assertion of the fuzz targets: prints the condition and aborts, so that libFuzzer
// keeps the input.

#ifndef TESTS_FUZZ_FUZZ_H_
#define TESTS_FUZZ_FUZZ_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"

#define MUST(condition)                                                            \
  if (!(condition)) {                                                              \
    fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
    abort();                                                                       \
  }

namespace ranklog::fuzz {

inline absl::string_view Text(const uint8_t* data, size_t size) {
  return absl::string_view(reinterpret_cast<const char*>(data), size);
}

}  // namespace ranklog::fuzz

#endif  // TESTS_FUZZ_FUZZ_H_
