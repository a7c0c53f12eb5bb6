#ifndef TESTS_SUPPORT_FILE_CONTENT_H_
#define TESTS_SUPPORT_FILE_CONTENT_H_

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace ranklog::testing {

// Returns the whole content of a file, also below /proc; empty if it cannot be read. Reads blocks:
// byte by byte, an unoptimized test needs half a second for 9 MB, which would distort its figures.
inline std::string FileContent(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(content).str();
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FILE_CONTENT_H_
