#ifndef TESTS_SUPPORT_FILE_CONTENT_H_
#define TESTS_SUPPORT_FILE_CONTENT_H_

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace ranklog::testing {

// All of a file, also of /proc; empty if it cannot be read. By blocks: byte by byte, a test without
// optimization takes half a second for 9 MB, which its figures would count.
inline std::string FileContent(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(content).str();
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FILE_CONTENT_H_
