#ifndef TESTS_SUPPORT_FILE_CONTENT_H_
#define TESTS_SUPPORT_FILE_CONTENT_H_

#include <fstream>
#include <iterator>
#include <string>

namespace ranklog::testing {

// All of a file, also of /proc; empty if it cannot be read.
inline std::string FileContent(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FILE_CONTENT_H_
